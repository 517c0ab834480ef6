package consultoken_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/register"
	"github.com/fencepost/fencepost/internal/register/registertest"
	"github.com/fencepost/fencepost/internal/test/serverproc"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/consultoken"
)

func isUnreachable(err error) bool { return errors.Is(err, token.ErrUnreachable) }

func acquire(t *testing.T, iss *consultoken.Issuer, holder string) token.Token {
	t.Helper()
	grant, err := iss.Acquire(t.Context(), resource, holder, long)
	require.NoError(t, err)
	return grant.Token
}

func TestStressTokensOfConsul(t *testing.T) {
	t.Parallel()
	s := newServer(t, "acl {\nenabled = true\ndefault_policy = \"deny\"\n}")
	require.Eventually(t, func() bool {
		status, text, _ := s.send(t, http.MethodPut, "/v1/acl/bootstrap", nil)
		var made struct{ SecretID string }
		if status != http.StatusOK || json.Unmarshal([]byte(text), &made) != nil {
			return false
		}
		s.token = made.SecretID
		return true
	}, serverproc.Timeout, 50*time.Millisecond)
	as := func(secret string) *consultoken.Issuer {
		return consultoken.New(consultoken.Config{URL: s.url(), Token: secret, Client: client(t, nil)})
	}
	const rule = `key_prefix "fencepost/" { policy = "write" }`
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	require.Contains(t, string(doc), rule)

	app := as(s.policy(t, "locks", rule))
	tok := acquire(t, app, "h")
	registertest.TestHandOver(t, app, app, nil)
	require.NoError(t, app.Recover(t.Context(), resource, tok.Number+10))
	require.NoError(t, app.Release(t.Context(), tok))

	reader := s.policy(t, "readers", `key_prefix "fencepost/" { policy = "read" }`)
	for what, c := range map[string]struct{ secret, text string }{
		"no token":                   {"", "403 Forbidden: Permission denied"},
		"an unknown token":           {"00000000-0000-0000-0000-000000000001", "403 Forbidden: ACL not found"},
		"a token for another prefix": {s.policy(t, "others", `key_prefix "other/" { policy = "write" }`), "403 Forbidden: Permission denied"},
		"a token that may only read": {reader, "409 Conflict"},
		"a token that has been deleted": {func() string {
			secret := s.policy(t, "gone", rule)
			_, err := as(secret).Inspect(t.Context(), resource)
			require.NoError(t, err)
			var self struct{ AccessorID string }
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url()+"/v1/acl/token/self", nil)
			require.NoError(t, err)
			req.Header.Set("X-Consul-Token", secret)
			r, err := s.http.Do(req)
			require.NoError(t, err)
			require.NoError(t, json.NewDecoder(r.Body).Decode(&self))
			require.NoError(t, r.Body.Close())
			s.must(t, http.MethodDelete, "/v1/acl/token/"+self.AccessorID, nil)
			return secret
		}(), "403 Forbidden: ACL not found"},
	} {
		_, err := as(c.secret).Acquire(t.Context(), "free", "h", long)
		require.ErrorContains(t, err, "consultoken: ", what)
		require.ErrorContains(t, err, c.text, what)
		require.False(t, isUnreachable(err), what)
		if c.secret != "" {
			require.NotContains(t, err.Error(), c.secret, what)
		}
	}
	_, err = consultoken.StoreOf(as("")).Watch(t.Context(), resource, "1")
	require.ErrorContains(t, err, "Permission denied")
	_, err = as(reader).Inspect(t.Context(), resource)
	require.NoError(t, err, "a right to read is enough for an operator who looks")
}

func TestStressTLSOfConsul(t *testing.T) {
	t.Parallel()
	cert, key := serverproc.Certificate(t)
	text, err := os.ReadFile(cert)
	require.NoError(t, err)
	trusted := x509.NewCertPool()
	require.True(t, trusted.AppendCertsFromPEM(text))
	pair, err := tls.LoadX509KeyPair(cert, key)
	require.NoError(t, err)
	config := &tls.Config{RootCAs: trusted, Certificates: []tls.Certificate{pair}}
	start := func(verify string) *server {
		s := startServer(t, "https", "bootstrap_expect = 1\ntls { https {\ncert_file = \""+cert+"\"\nkey_file = \""+key+"\"\nca_file = \""+cert+"\"\nverify_incoming = "+verify+"\n} }", config)
		s.await(t)
		return s
	}
	s, strict := start("false"), start("true")
	protocol := &protocols{RoundTripper: client(t, &tls.Config{RootCAs: trusted}).Transport}
	for _, iss := range []*consultoken.Issuer{
		consultoken.New(consultoken.Config{URL: s.url(), Client: &http.Client{Transport: protocol}}),
		consultoken.New(consultoken.Config{URL: strict.url(), Client: client(t, config)}),
	} {
		registertest.TestHandOver(t, iss, iss, nil)
	}
	require.Equal(t, 2, protocol.major, "blocking queries share a connection")
	for what, c := range map[string]struct {
		url    string
		config *tls.Config
	}{
		"a certificate that is not trusted": {s.url(), nil},
		"no certificate of the client":      {strict.url(), &tls.Config{RootCAs: trusted}},
	} {
		iss := consultoken.New(consultoken.Config{URL: c.url, Client: client(t, c.config)})
		call := func() error { _, err := iss.Acquire(t.Context(), resource, "h", long); return err }
		err := call()
		if c.config != nil { // net/http returns the server's alert, or that HTTP/2 has no connection
			err = again(call, token.ErrUnreachable)
		}
		require.ErrorContains(t, err, "consultoken: ", what)
		require.ErrorContains(t, err, "certificate", what)
		require.False(t, isUnreachable(err), "%s: %v", what, err)
	}
}

// protocols remembers the version of HTTP of the last reply.
type protocols struct {
	http.RoundTripper
	major int
}

func (p *protocols) RoundTrip(req *http.Request) (*http.Response, error) {
	r, err := p.RoundTripper.RoundTrip(req)
	if err == nil {
		p.major = r.ProtoMajor
	}
	return r, err
}

func TestStressConsulIsDown(t *testing.T) {
	t.Parallel()
	s := newServer(t, "")
	iss := s.issuer(t)
	tok := acquire(t, iss, "h")
	watched := make(chan error, 1)
	go func() {
		e, err := consultoken.StoreOf(iss).Load(t.Context(), resource)
		if err == nil {
			_, err = consultoken.StoreOf(iss).Watch(t.Context(), resource, e.Version)
		}
		watched <- err
	}()
	s.Kill()
	require.Error(t, <-watched, "a watch ends with its connection")
	_, err := iss.Renew(t.Context(), tok, long)
	require.True(t, isUnreachable(err), "%v", err)
	s.restart(t)
	require.NoError(t, again(func() error { _, err := iss.Renew(t.Context(), tok, long); return err }, token.ErrUnreachable), "the record is on disk")
	require.NoError(t, iss.Release(t.Context(), tok))

	alone := startServer(t, "http", "bootstrap_expect = 3\nperformance { rpc_hold_timeout = \"100ms\" }", nil)
	_, err = alone.issuer(t).Acquire(t.Context(), resource, "h", long)
	require.True(t, isUnreachable(err), "%v", err)
	require.ErrorContains(t, err, "No cluster leader")
}

func TestStressConsulLimitsConnections(t *testing.T) {
	t.Parallel()
	s := newServer(t, "limits { http_max_conns_per_client = 2 }")
	// Each of its requests takes a connection.
	iss := consultoken.New(consultoken.Config{URL: s.url(), Client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}})
	store := consultoken.StoreOf(s.issuer(t))
	s.http.CloseIdleConnections()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	watch := func() {
		e, err := store.Load(ctx, resource)
		for err == nil || isUnreachable(err) && ctx.Err() == nil {
			if err != nil {
				time.Sleep(100 * time.Millisecond)
			}
			e, err = store.Watch(ctx, resource, e.Version)
		}
		ended <- struct{}{}
	}
	go watch()
	go watch()
	require.Eventually(t, func() bool {
		_, err := iss.Inspect(ctx, resource)
		require.True(t, err == nil || isUnreachable(err), "%v", err)
		return err != nil && strings.Contains(err.Error(), "429 Too Many Requests")
	}, time.Minute, time.Millisecond)
	cancel()
	<-ended
	<-ended
	require.NoError(t, again(func() error { _, err := iss.Inspect(t.Context(), resource); return err }, token.ErrUnreachable))
}

// queries changes blocking queries, and remembers the indexes that they send.
type queries struct {
	http.RoundTripper
	change  func(query map[string][]string)
	indexes chan string
	without string // a header that replies lack, as behind some proxies
}

func (q *queries) RoundTrip(req *http.Request) (*http.Response, error) {
	if query := req.URL.Query(); query.Has("index") {
		q.indexes <- query.Get("index")
		q.change(query)
		req = req.Clone(req.Context())
		req.URL.RawQuery = query.Encode()
	}
	r, err := q.RoundTripper.RoundTrip(req)
	if err == nil {
		r.Header.Del(q.without)
	}
	return r, err
}

func TestStressWatchOfConsul(t *testing.T) {
	t.Parallel()
	s := newServer(t, "")
	write := func(t *testing.T, store register.Store, old string, number int64) string {
		t.Helper()
		e, swapped, err := store.Swap(t.Context(), resource, old, register.Record{Number: number})
		require.NoError(t, err)
		require.True(t, swapped)
		return e.Version
	}
	type event struct {
		e   register.Entry
		err error
	}
	watch := func(ctx context.Context, store register.Store, seen string) chan event {
		events := make(chan event, 1)
		go func() {
			e, err := store.Watch(ctx, resource, seen)
			events <- event{e, err}
		}()
		return events
	}
	open := func(t *testing.T, prefix string, change func(map[string][]string)) (register.Store, *queries) {
		q := &queries{RoundTripper: client(t, nil).Transport, change: change, indexes: make(chan string, 1000)}
		return consultoken.StoreOf(consultoken.New(consultoken.Config{URL: s.url(), Prefix: prefix, Client: &http.Client{Transport: q}})), q
	}
	none := func(map[string][]string) {}
	t.Run("writes and deletions", func(t *testing.T) {
		store, q := open(t, "w/", none)
		registertest.TestStore(t, store, func(key string) { s.must(t, http.MethodDelete, "/v1/kv/w/"+register.Name(key), nil) }, func() bool {
			select {
			case <-q.indexes:
				return true
			default:
				return false
			}
		})
	})
	t.Run("a reply without a change is no event", func(t *testing.T) {
		store, q := open(t, "s/", func(query map[string][]string) { query["wait"] = []string{"1ms"} })
		first := write(t, store, "", 1)
		events := watch(t.Context(), store, first)
		for range 5 {
			require.Equal(t, first, <-q.indexes)
		}
		require.Empty(t, events)
		second := write(t, store, first, 2)
		got := <-events
		require.NoError(t, got.err)
		require.Equal(t, second, got.e.Version)
	})
	t.Run("an index that falls", func(t *testing.T) {
		high := strconv.FormatInt(1<<40, 10) // as of servers that were replaced
		store, q := open(t, "f/", func(query map[string][]string) {
			if query["index"][0] == high {
				query["wait"] = []string{"1ms"}
			}
		})
		first := write(t, store, "", 1)
		// The version of a record is its index, so this Watch has one that the servers have
		// not reached.
		got := <-watch(t.Context(), store, high)
		require.NoError(t, got.err)
		require.Equal(t, first, got.e.Version)
		require.Equal(t, high, <-q.indexes)
		// Here the version is that of the record, and only the query has the other index.
		sent := 0
		q.change = func(query map[string][]string) {
			if sent++; sent == 1 {
				query["index"], query["wait"] = []string{high}, []string{"1ms"}
			}
		}
		events := watch(t.Context(), store, first)
		require.Equal(t, first, <-q.indexes)
		require.Equal(t, first, <-q.indexes)
		second := write(t, store, first, 2)
		got = <-events
		require.NoError(t, got.err)
		require.Equal(t, second, got.e.Version)
	})
	t.Run("without an index the watch fails, since it would poll", func(t *testing.T) {
		store, q := open(t, "x/", none)
		q.without = "X-Consul-Index"
		_, err := store.Watch(t.Context(), resource, "")
		require.EqualError(t, err, "consultoken: a reply has no X-Consul-Index")
	})
	t.Run("a snapshot is restored under a watch", func(t *testing.T) {
		const arrival = 200 * time.Millisecond // of the query. If it is later, it replies after a minute
		store, q := open(t, "r/", none)
		first := write(t, store, "", 1)
		snapshot := s.must(t, http.MethodGet, "/v1/snapshot", nil)
		second := write(t, store, first, 2)
		events := watch(t.Context(), store, second)
		require.Equal(t, second, <-q.indexes)
		time.Sleep(arrival)
		s.must(t, http.MethodPut, "/v1/snapshot", []byte(snapshot))
		got := <-events
		require.NoError(t, got.err)
		require.Equal(t, first, got.e.Version, "the record as it was")
		require.Empty(t, q.indexes, "a query with the index of before would block")
		events = watch(t.Context(), store, first)
		require.Equal(t, first, <-q.indexes)
		time.Sleep(arrival)
		s.must(t, http.MethodPut, "/v1/snapshot", []byte(snapshot))
		require.Equal(t, first, <-q.indexes, "the query has ended, the watch has not")
		third := write(t, store, first, 3)
		got = <-events
		require.NoError(t, got.err)
		require.Equal(t, third, got.e.Version)
	})
}

func TestStressConsulLosesItsLeader(t *testing.T) {
	for name, lose := range map[string]func(t *testing.T, leader *server) (back func()){
		"for good":       func(_ *testing.T, leader *server) func() { leader.Kill(); return nil },
		"and it returns": func(t *testing.T, leader *server) func() { leader.Kill(); return func() { leader.restart(t) } },
		// The old leader continues where it was, with the requests that it had received.
		"while it is stopped": func(t *testing.T, leader *server) func() {
			require.NoError(t, leader.Send("STOP"))
			return func() { require.NoError(t, leader.Send("CONT")) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			retried := func(call func() error) error { return again(call, token.ErrUnreachable) }
			first, others := leader(t, newCluster(t, "")...)
			old, majority := first.issuer(t), others[0].issuer(t)
			a := acquire(t, old, "a")
			back := lose(t, first)
			late := make(chan error, 1)
			go func() { _, err := old.Acquire(context.WithoutCancel(t.Context()), "free", "old", long); late <- err }()
			leader(t, others...)
			require.NoError(t, retried(func() error { return majority.Release(t.Context(), a) }))
			var b, free, c token.Grant
			require.NoError(t, retried(func() (err error) { b, err = majority.Acquire(t.Context(), resource, "b", long); return err }))
			require.Greater(t, b.Token.Number, a.Number)
			require.NoError(t, retried(func() (err error) { free, err = majority.Acquire(t.Context(), "free", "new", long); return err }))

			if back == nil {
				require.True(t, isUnreachable(<-late))
				return
			}
			back()
			if err := <-late; !isUnreachable(err) {
				require.ErrorIs(t, err, token.ErrHeld, "what the old leader had received")
			}
			require.ErrorIs(t, retried(func() error { _, err := old.Renew(t.Context(), a, long); return err }), token.ErrLost)
			require.NoError(t, retried(func() error { _, err := old.Renew(t.Context(), free.Token, long); return err }))
			if err := retried(func() error { return old.Release(t.Context(), b.Token) }); err != nil {
				require.ErrorIs(t, err, token.ErrLost, "an attempt whose reply was lost")
			}
			require.NoError(t, retried(func() (err error) { c, err = old.Acquire(t.Context(), resource, "c", long); return err }))
			require.Greater(t, c.Token.Number, b.Token.Number)
		})
	}
}

func TestStressASnapshotOfConsulUnderALiveHolder(t *testing.T) {
	t.Parallel()
	s := newServer(t, "")
	a, b := s.issuer(t), s.issuer(t)
	snapshot := s.must(t, http.MethodGet, "/v1/snapshot", nil)
	lose := map[string]func(){
		"the keys are deleted":   func() { s.must(t, http.MethodDelete, "/v1/kv/fencepost/?recurse", nil) },
		"a snapshot is restored": func() { s.must(t, http.MethodPut, "/v1/snapshot", []byte(snapshot)) },
	}
	for what, lost := range lose {
		old := acquire(t, a, "a")
		lost()
		tok := acquire(t, b, "b")
		require.Greater(t, tok.Number, old.Number, what)
		_, err := a.Renew(t.Context(), old, long)
		require.ErrorIs(t, err, token.ErrLost, what)
		_, err = b.Renew(t.Context(), tok, long)
		require.NoError(t, err, what)
		require.NoError(t, b.Release(t.Context(), tok))
		s.must(t, http.MethodDelete, "/v1/kv/"+key, nil)
	}
}

// hazard L17
func TestStressConsulIsReplacedUnderALiveHolder(t *testing.T) {
	t.Parallel()
	s := newServer(t, "")
	a, b := s.issuer(t), s.issuer(t)
	value := int64(0)
	index := func() uint64 { // of a write that this makes
		value++ // an equal value would leave the index
		s.must(t, http.MethodPut, "/v1/kv/other", strconv.AppendInt(nil, value, 10))
		var pairs []struct{ ModifyIndex uint64 }
		require.NoError(t, json.Unmarshal([]byte(s.must(t, http.MethodGet, "/v1/kv/other", nil)), &pairs))
		return pairs[0].ModifyIndex
	}
	version := func() uint64 {
		e, err := consultoken.StoreOf(b).Load(t.Context(), resource)
		require.NoError(t, err)
		n, err := strconv.ParseUint(strings.TrimSpace(e.Version), 10, 64)
		require.NoError(t, err)
		return n
	}
	restore := s.backup(t)
	for start := index(); index() < start+100; {
	}
	old := acquire(t, a, "a")
	before := version()
	var tok token.Token
	for try := 0; ; try++ { // until no write of the server itself takes the index
		restore() // and the record of a is lost
		for index() < before-1 {
		}
		require.NoError(t, again(func() error {
			grant, err := b.Acquire(t.Context(), resource, "b", long)
			tok = grant.Token
			return err
		}, token.ErrUnreachable))
		if version() == before {
			break
		}
		require.Less(t, try, 100, "this test must force an index that repeats")
	}
	require.Greater(t, tok.Number, old.Number)
	err := again(func() error { _, err := a.Renew(t.Context(), old, long); return err }, token.ErrUnreachable)
	require.ErrorIs(t, err, token.ErrLost)
	state, err := b.Inspect(t.Context(), resource)
	require.NoError(t, err)
	require.Equal(t, "b", state.Holder)
	_, err = b.Renew(t.Context(), tok, long)
	require.NoError(t, err)
}
