package etcdtoken_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/netfault"
	"github.com/fencepost/fencepost/internal/register"
	"github.com/fencepost/fencepost/internal/register/registertest"
	"github.com/fencepost/fencepost/internal/test/serverproc"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/etcdtoken"
)

func TestUsersAndRoles(t *testing.T) {
	t.Parallel()
	server := testenv.OwnEtcd(t, "--bcrypt-cost", "4") // eight checks of a password take less than five seconds
	for _, user := range []string{"root", "app", "stranger"} {
		admin(t, server, "", "/v3/auth/user/add", map[string]any{"name": user, "password": "secret"})
	}
	admin(t, server, "", "/v3/auth/role/add", map[string]any{"name": "locks"})
	admin(t, server, "", "/v3/auth/role/grant", map[string]any{"name": "locks", "perm": map[string]any{
		"permType": "READWRITE", "key": []byte("fencepost/"), "range_end": []byte("fencepost0")}})
	admin(t, server, "", "/v3/auth/user/grant", map[string]any{"user": "app", "role": "locks"})
	admin(t, server, "", "/v3/auth/user/grant", map[string]any{"user": "root", "role": "root"})
	admin(t, server, "", "/v3/auth/enable", nil)

	counted := &counter{RoundTripper: client(t, nil).Transport, path: "/v3/auth/authenticate"}
	as := func(user, password string) *etcdtoken.Issuer {
		return etcdtoken.New(etcdtoken.Config{
			Endpoints: []string{server.URL()}, User: user, Password: password, Client: &http.Client{Transport: counted}})
	}
	for text, iss := range map[string]*etcdtoken.Issuer{
		"authentication failed": as("app", "wrong"),
		"user name is empty":    as("", ""),
		"permission denied":     as("stranger", "secret"),
	} {
		_, err := iss.Acquire(t.Context(), resource, "h", long)
		require.ErrorContains(t, err, "etcdtoken: ")
		require.ErrorContains(t, err, text)
		require.NotErrorIs(t, err, token.ErrUnreachable)
	}
	_, err := etcdtoken.StoreOf(as("stranger", "secret")).Watch(t.Context(), resource, "")
	require.ErrorContains(t, err, "permission denied", "a watch that the server cancels ends")

	app := as("app", "secret")
	root := admin(t, server, "", "/v3/auth/authenticate", map[string]any{"name": "root", "password": "secret"})
	refuse := func() { // every token that the user has
		admin(t, server, root.Token, "/v3/auth/user/changepw", map[string]any{"name": "app", "password": "secret"})
		counted.executed.Store(0)
	}
	acquire(t, app, "h")
	refuse()
	atOnce := func(iss *etcdtoken.Issuer) (errs [8]error) {
		var all sync.WaitGroup
		for i := range errs {
			all.Go(func() { _, errs[i] = iss.Inspect(t.Context(), resource) })
		}
		all.Wait()
		return errs
	}
	for _, err := range atOnce(app) {
		require.NoError(t, err)
	}
	require.EqualValues(t, 1, counted.executed.Load(), "one caller asks for a token")
	registertest.TestHandOver(t, app, app, refuse) // a Swap whose token was refused is sent again
	require.EqualValues(t, 1, counted.executed.Load())
	admin(t, server, root.Token, "/v3/auth/user/changepw", map[string]any{"name": "app", "password": "another"})
	for _, err := range atOnce(app) { // also of a caller that has waited for another's new token
		require.ErrorContains(t, err, "authentication failed")
	}
	proxy, err := netfault.Start(server.Addr())
	require.NoError(t, err)
	defer proxy.Close()
	proxy.Blackhole(netfault.ToServer)
	for _, err := range atOnce(etcdtoken.New(etcdtoken.Config{
		Endpoints: []string{proxy.Addr(), server.URL()}, User: "app", Password: "another", Client: &http.Client{Transport: counted}})) {
		require.NoError(t, err, "also of a caller that has waited for a token from the first endpoint")
	}
}

// A token that is signed has the revision of the users, which each change of them raises.
func TestSignedTokensOfUsers(t *testing.T) {
	t.Parallel()
	cert, _ := serverproc.Certificate(t) // in a folder that the server can read
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	secret, err := x509.MarshalECPrivateKey(private)
	require.NoError(t, err)
	public, err := x509.MarshalPKIXPublicKey(private.Public())
	require.NoError(t, err)
	keys := filepath.Dir(cert)
	for name, block := range map[string]*pem.Block{"jwt": {Type: "EC PRIVATE KEY", Bytes: secret}, "jwt.pub": {Type: "PUBLIC KEY", Bytes: public}} {
		require.NoError(t, os.WriteFile(filepath.Join(keys, name), pem.EncodeToMemory(block), 0o644)) //nolint:gosec // of this test
	}
	server := testenv.OwnEtcd(t, "--auth-token", "jwt,sign-method=ES256,pub-key="+keys+"/jwt.pub,priv-key="+keys+"/jwt")
	admin(t, server, "", "/v3/auth/user/add", map[string]any{"name": "root", "password": "secret"})
	admin(t, server, "", "/v3/auth/user/grant", map[string]any{"user": "root", "role": "root"})
	admin(t, server, "", "/v3/auth/enable", nil)
	iss := etcdtoken.New(etcdtoken.Config{Endpoints: []string{server.URL()}, User: "root", Password: "secret", Client: client(t, nil)})
	tok := acquire(t, iss, "h")
	root := admin(t, server, "", "/v3/auth/authenticate", map[string]any{"name": "root", "password": "secret"})
	admin(t, server, root.Token, "/v3/auth/role/add", map[string]any{"name": "new"})
	_, err = iss.Renew(t.Context(), tok, long)
	require.NoError(t, err)
	require.NoError(t, iss.Release(t.Context(), tok))
}

// counter counts the requests with a path, and those that the server has executed.
type counter struct {
	http.RoundTripper
	path           string
	sent, executed atomic.Int64
}

func (c *counter) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Path != c.path {
		return c.RoundTripper.RoundTrip(req)
	}
	c.sent.Add(1)
	r, err := c.RoundTripper.RoundTrip(req)
	if err == nil && r.StatusCode == http.StatusOK {
		c.executed.Add(1)
	}
	return r, err
}

func TestTLS(t *testing.T) {
	t.Parallel()
	cert, key := serverproc.Certificate(t)
	text, err := os.ReadFile(cert)
	require.NoError(t, err)
	trusted := x509.NewCertPool()
	require.True(t, trusted.AppendCertsFromPEM(text))
	server := testenv.OwnEtcd(t, "--cert-file", cert, "--key-file", key)
	strict := testenv.OwnEtcd(t, "--cert-file", cert, "--key-file", key, "--client-cert-auth", "--trusted-ca-file", cert)
	open := func(url string, config *tls.Config) *etcdtoken.Issuer {
		return etcdtoken.New(etcdtoken.Config{Endpoints: []string{url}, Client: client(t, config)})
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	require.NoError(t, err)
	for _, iss := range []*etcdtoken.Issuer{
		open(server.URL(), &tls.Config{RootCAs: trusted}),
		open(strict.URL(), &tls.Config{RootCAs: trusted, Certificates: []tls.Certificate{pair}}),
	} {
		registertest.TestHandOver(t, iss, iss, nil)
	}
	for what, iss := range map[string]*etcdtoken.Issuer{
		"a certificate that is not trusted": open(server.URL(), nil),
		// With TLS 1.3 the server refuses after the handshake, and may close the connection before
		// the client has read why.
		"no certificate of the client": open(strict.URL(), &tls.Config{RootCAs: trusted, MaxVersion: tls.VersionTLS12}), //nolint:gosec // see above
	} {
		_, err := iss.Acquire(t.Context(), resource, "h", long)
		require.ErrorContains(t, err, "etcdtoken: ", what)
		require.NotErrorIs(t, err, token.ErrUnreachable, what)
	}
}

func TestWhatARetryCures(t *testing.T) {
	t.Parallel()
	dead := serverproc.Loopback(serverproc.FreePort(t))
	for what, c := range map[string]struct {
		endpoint string
		curable  bool
	}{
		"no server":                {dead, true},
		"no such host":             {"fencepost.invalid:2379", true},
		"no room":                  {testenv.OwnEtcd(t, "--quota-backend-bytes", "1").URL(), true},
		"the gateway is closed":    {testenv.OwnEtcd(t, "--enable-grpc-gateway=false").URL(), false},
		"an endpoint with a space": {"a b", false},
	} {
		_, err := issuer(t, c.endpoint).Acquire(t.Context(), resource, "h", long)
		require.ErrorContains(t, err, "etcdtoken: ", what)
		if c.curable {
			require.ErrorIs(t, err, token.ErrUnreachable, what)
		} else {
			require.NotErrorIs(t, err, token.ErrUnreachable, what)
		}
	}
}

func TestEndpoints(t *testing.T) {
	t.Parallel()
	server := testenv.OwnEtcd(t)
	dead := "http://" + serverproc.Loopback(serverproc.FreePort(t)) + "/"
	t.Run("a dead one is left out", func(t *testing.T) {
		t.Parallel()
		iss := issuer(t, dead, server.URL(), dead)
		tok := acquire(t, iss, "h")
		_, err := iss.Renew(t.Context(), tok, long)
		require.NoError(t, err)
		require.NoError(t, iss.Release(t.Context(), tok))
		_, swapped, err := etcdtoken.StoreOf(issuer(t, dead, server.URL())).Swap(t.Context(), "new", "", register.Record{Number: 1})
		require.NoError(t, err, "a Swap that was not sent goes to the next one")
		require.True(t, swapped)
	})
	t.Run("a request whose reply is lost is repeated only if it reads", func(t *testing.T) {
		t.Parallel()
		proxy, err := netfault.Start(server.Addr())
		require.NoError(t, err)
		defer proxy.Close()
		counted := &counter{RoundTripper: client(t, nil).Transport, path: "/v3/kv/txn"}
		store := etcdtoken.StoreOf(etcdtoken.New(etcdtoken.Config{
			Endpoints: []string{proxy.Addr(), server.Addr()}, Prefix: "lost/", Client: &http.Client{Transport: counted}}))
		cut := func(call func() error) error { // while the reply is on its way
			proxy.Blackhole(netfault.ToClient)
			done := make(chan error, 1)
			go func() { done <- call() }()
			require.Eventually(t, func() bool { return proxy.Held(netfault.ToClient) > 0 }, time.Minute, time.Millisecond)
			proxy.Reset()
			proxy.Heal(netfault.ToClient)
			return <-done
		}
		err = cut(func() error {
			_, _, err := store.Swap(t.Context(), resource, "", register.Record{Number: 5})
			return err
		})
		require.ErrorIs(t, err, token.ErrUnreachable)
		require.EqualValues(t, 1, counted.sent.Load(), "its outcome is unknown")
		e, err := store.Load(t.Context(), resource) // from the other endpoint
		require.NoError(t, err)
		require.EqualValues(t, 5, e.Number)

		store = etcdtoken.StoreOf(etcdtoken.New(etcdtoken.Config{
			Endpoints: []string{proxy.Addr(), server.Addr()}, Prefix: "lost/", Client: &http.Client{Transport: counted}}))
		require.NoError(t, cut(func() error {
			e, err = store.Load(t.Context(), resource)
			return err
		}))
		require.EqualValues(t, 5, e.Number)
	})
	t.Run("one that does not answer is left out after the caller's deadline", func(t *testing.T) {
		t.Parallel()
		proxy, err := netfault.Start(server.Addr())
		require.NoError(t, err)
		defer proxy.Close()
		proxy.Blackhole(netfault.ToServer)
		counted := &counter{RoundTripper: client(t, nil).Transport, path: "/v3/kv/range"}
		iss := etcdtoken.New(etcdtoken.Config{Endpoints: []string{proxy.Addr(), server.Addr()}, Client: &http.Client{Transport: counted}})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err = iss.Inspect(ctx, resource)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = iss.Inspect(t.Context(), resource)
		require.NoError(t, err)
		require.EqualValues(t, 2, counted.sent.Load(), "one to each endpoint")
	})
}

// A crowd of waiters would otherwise make a connection each at each change.
func TestOneStreamHasTheChangesOfAWait(t *testing.T) {
	t.Parallel()
	counted := &counter{RoundTripper: client(t, nil).Transport, path: "/v3/watch"}
	iss := etcdtoken.New(etcdtoken.Config{Endpoints: []string{testenv.OwnEtcd(t).URL()}, Client: &http.Client{Transport: counted}})
	etcdtoken.KeepStreams(iss, time.Hour)
	store := etcdtoken.StoreOf(iss)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	swap := func(old string, number int64) string {
		e, swapped, err := store.Swap(ctx, resource, old, register.Record{Number: number})
		require.NoError(t, err)
		require.True(t, swapped)
		return e.Version
	}
	first := swap("", 1)
	last := first
	for n := range int64(5) {
		now := swap(last, n+2)
		e, err := store.Watch(ctx, resource, last)
		require.NoError(t, err)
		require.Equal(t, now, e.Version)
		last = now
	}
	require.EqualValues(t, 1, counted.sent.Load())

	e, err := store.Watch(ctx, resource, first)
	require.NoError(t, err)
	require.NotEqual(t, first, e.Version)
	require.EqualValues(t, 2, counted.sent.Load(), "the stream has passed that version")

	for _, version := range []string{last, e.Version} { // ends both streams
		ended, end := context.WithCancel(ctx)
		end()
		_, err = store.Watch(ended, resource, version)
		require.Error(t, err)
	}
	now := swap(last, 9)
	e, err = store.Watch(ctx, resource, last)
	require.NoError(t, err)
	require.Equal(t, now, e.Version)
	ended, end := context.WithCancel(ctx)
	end()
	_, err = store.Watch(ended, resource, now)
	require.Error(t, err)
}

func TestWatch(t *testing.T) {
	t.Parallel()
	server := testenv.OwnEtcd(t)
	proxy, err := netfault.Start(server.Addr())
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	store := etcdtoken.StoreOf(issuer(t, proxy.Addr()))
	write := func(old string, number int64) string {
		e, swapped, err := store.Swap(t.Context(), resource, old, register.Record{Number: number})
		require.NoError(t, err)
		require.True(t, swapped)
		return e.Version
	}
	registertest.TestStore(t, store, func(key string) { remove(t, server, key) }, nil)
	first := write("", 1)
	second := write(first, 2)
	e, err := store.Watch(t.Context(), resource, first)
	require.NoError(t, err)
	require.Zero(t, e.Clock, "the head of the reply was sent before the event")

	third := write(second, 3)
	revision, _, _ := strings.Cut(third, " ")
	admin(t, server, "", "/v3/kv/compaction", map[string]any{"revision": revision})
	_, err = store.Watch(t.Context(), resource, first)
	require.ErrorContains(t, err, "etcdtoken: the watch has ended: compacted up to "+revision)

	broken := make(chan error, 1)
	go func() {
		_, err := store.Watch(t.Context(), resource, third)
		broken <- err
	}()
	server.Kill()
	require.Error(t, <-broken, "a stream that breaks")
}

func TestStressAWatchEndsIfItsMemberHasNoLeader(t *testing.T) {
	t.Parallel()
	members := testenv.EtcdCluster(t)
	counted := &counter{RoundTripper: client(t, nil).Transport, path: "/v3/watch"}
	store := etcdtoken.StoreOf(etcdtoken.New(etcdtoken.Config{Endpoints: []string{members[0].URL()}, Client: &http.Client{Transport: counted}}))
	ended := make(chan error, 1)
	go func() {
		_, err := store.Watch(t.Context(), resource, "")
		ended <- err
	}()
	require.Eventually(t, func() bool { return counted.executed.Load() == 1 }, time.Minute, time.Millisecond)
	members[1].Kill()
	members[2].Kill()
	select {
	case err := <-ended:
		require.Error(t, err)
	case <-time.After(time.Minute):
		t.Fatal("the watch goes on")
	}
	_, err := store.Load(t.Context(), resource)
	require.ErrorIs(t, err, token.ErrUnreachable)
	require.ErrorContains(t, err, "no leader")
}

// The old leader is alive, and clients reach it.
func TestStressTheLeaderIsCutOff(t *testing.T) {
	t.Parallel()
	members := testenv.EtcdCluster(t)
	leader, urls := testenv.EtcdLeader(members...), []string(nil)
	others := slices.DeleteFunc(slices.Clone(members), func(m *testenv.EtcdServer) bool { return m == leader })
	for _, m := range others {
		urls = append(urls, m.URL())
	}
	old, majority := issuer(t, leader.URL()), issuer(t, urls...)
	a := acquire(t, old, "a")

	heal := leader.CutOff()
	ask := func() { // the old leader, by each request
		for what, request := range map[string]func() error{
			"a free lock": func() error { _, err := old.Acquire(t.Context(), "free", "old", long); return err },
			"a wait":      func() error { _, err := old.Wait(t.Context(), "waited for", "old", long); return err },
			"its renewal": func() error { _, err := old.Renew(t.Context(), a, long); return err },
			"a look":      func() error { _, err := old.Inspect(t.Context(), resource); return err },
		} {
			require.ErrorIs(t, request(), token.ErrUnreachable, what)
		}
	}
	ask() // as the leader, or without one
	testenv.EtcdLeader(others...)
	require.NoError(t, again(func() error { return majority.Release(t.Context(), a) }))
	var b, free token.Grant
	require.NoError(t, again(func() (err error) { b, err = majority.Acquire(t.Context(), resource, "b", long); return err }))
	require.NoError(t, again(func() (err error) { free, err = majority.Acquire(t.Context(), "free", "new", long); return err }))
	require.Greater(t, b.Token.Number, a.Number)
	ask()

	heal()
	var state token.State
	require.NoError(t, again(func() (err error) { state, err = old.Inspect(t.Context(), resource); return err }))
	require.Equal(t, b.Token.Number, state.Number)
	require.ErrorIs(t, again(func() error { _, err := old.Renew(t.Context(), a, long); return err }), token.ErrLost)
	require.NoError(t, again(func() error { _, err := old.Renew(t.Context(), free.Token, long); return err }), "the requests of then have no effect")
	if err := again(func() error { return old.Release(t.Context(), b.Token) }); err != nil {
		require.ErrorIs(t, err, token.ErrLost, "an attempt whose reply was lost")
	}
	var c token.Grant
	require.NoError(t, again(func() (err error) { c, err = old.Acquire(t.Context(), resource, "c", long); return err }))
	require.Greater(t, c.Token.Number, b.Token.Number)
}

// again repeats a call while the members have no leader.
func again(call func() error) error {
	for {
		if err := call(); !errors.Is(err, token.ErrUnreachable) {
			return err
		}
	}
}

// hazard L17
func TestARestoreUnderALiveHolder(t *testing.T) {
	t.Parallel()
	server := testenv.OwnEtcd(t)
	restore := server.Backup()
	a, b := issuer(t, server.URL()), issuer(t, server.URL())
	revision := func(iss *etcdtoken.Issuer) string {
		e, err := etcdtoken.StoreOf(iss).Load(t.Context(), resource)
		require.NoError(t, err)
		revision, _, _ := strings.Cut(e.Version, " ")
		return revision
	}
	old := acquire(t, a, "a")
	before := revision(a)
	restore() // and the record of a is lost
	tok := acquire(t, b, "b")
	require.Equal(t, before, revision(b), "this test must force a revision that repeats")
	require.Greater(t, tok.Number, old.Number)
	_, err := a.Renew(t.Context(), old, long) // on a connection that is broken
	if errors.Is(err, token.ErrUnreachable) {
		_, err = a.Renew(t.Context(), old, long)
	}
	require.ErrorIs(t, err, token.ErrLost)
	state, err := b.Inspect(t.Context(), resource)
	require.NoError(t, err)
	require.Equal(t, "b", state.Holder)
	_, err = b.Renew(t.Context(), tok, long)
	require.NoError(t, err)
}
