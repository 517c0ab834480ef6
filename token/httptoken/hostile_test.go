package httptoken_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard/signature"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/httptoken"
	"github.com/fencepost/fencepost/token/memtoken"
)

// A proxy that decides about a request may read it in another way.
func TestARequestIsReadInOneWayOrRefused(t *testing.T) {
	t.Parallel()
	s := newService(t, &httptoken.Handler{})
	for _, body := range []string{
		`{"holder":"a","request":null,"ttl_ms":1}`, `{"holder":"a","ttl_ms":1,"wait_ms":null}`, `{"holder":"a","request":"\ud800","ttl_ms":1}`,
		`{"holder":"a","h\u006flder":"a","ttl_ms":1}`, `{"holder":"a","ttl_ms":1e3}`, `{"holder":"a","ttl_ms":1.0}`, `{"holder":"a","ttl_ms":9e15}`,
		`{"holder":"a","ttl_ms":9000000000000000}`, `{"holder":"a","ttl_ms":9223372036854775808}`, `{"holder":"a","ttl_ms":"1"}`, `{"holder":["a"],"ttl_ms":1}`,
		`{"holder":"a","ttl_ms":1,}`, `{"holder":"a" "ttl_ms":1}`, `{"holder":"a","ttl_ms":1}1`, "\ufeff" + `{"holder":"a","ttl_ms":1}`, `{"holder":"a","ttl_ms":0}`, `{"holder":"a","ttl_ms":86400001}`,
		`{"holder":"a","ttl_ms":1,"wait_ms":-1}`, `{"holder":"a","ttl_ms":1,"wait_ms":50001}`, `{"holder":"a\u0000","ttl_ms":1}`,
	} {
		r := s.send("PUT", lockPath, body)
		require.Equal(t, 400, r.status, "%s: %s", body, r.text)
	}
	require.Equal(t, 200, s.send("PUT", lockPath, `{"holder":"a","request":"\ud83d\ude00","ttl_ms":600000}`).status, "a whole pair")
	require.Equal(t, 404, s.send("POST", `/v1/locks/a"%2Frenew`, tryBody).status, "this is no renewal of a\"")
}

func TestANumberAheadOfTheClockIsInvalid(t *testing.T) {
	t.Parallel()
	s := newService(t, &httptoken.Handler{Guards: map[string]guard.Store{"accounts": new(guard.Memory)}})
	require.Equal(t, 400, s.send("POST", lockPath+"/break", `{"holder":"x","reason":"y","number":999999999999999}`).status)
}

// The guard has admitted the holder with a number that the issuer has forgotten. A client in
// Go has the label as its holder.
func TestABreakDeposesAClientInGo(t *testing.T) {
	t.Parallel()
	var marks guard.Memory
	s := newService(t, &httptoken.Handler{Guards: map[string]guard.Store{"accounts": &marks}})
	grant, err := (&httptoken.Issuer{URL: s.URL, Client: s.Client()}).Acquire(t.Context(), "job/report", "billing:1", time.Hour)
	require.NoError(t, err)
	grant.Token.Number += 60 * 60 * 100_000
	require.NoError(t, marks.Admit(t.Context(), grant.Token))
	r := s.send("POST", lockPath+"/break", fmt.Sprintf(`{"holder":%q,"reason":"hangs"}`, s.state("job/report").Holder))
	require.Equal(t, 200, r.status, r.text)
	require.ErrorIs(t, marks.Admit(t.Context(), grant.Token), guard.ErrStale)
}

// silent is an issuer that does not reply to the third question, behind the break.
type silent struct {
	*memtoken.Issuer
	questions int
}

func (s *silent) Inspect(ctx context.Context, resource string) (token.State, error) {
	if s.questions++; s.questions == 3 {
		return token.State{}, errors.New("dial tcp 10.0.0.5:6379")
	}
	return s.Issuer.Inspect(ctx, resource)
}

func TestAReportHasNoErrorOfTheIssuer(t *testing.T) {
	t.Parallel()
	s := newService(t, &httptoken.Handler{Issuer: &silent{Issuer: new(memtoken.Issuer)}})
	r := s.send("POST", lockPath+"/break", `{"holder":"x","reason":"y","unfenced":true}`)
	require.Equal(t, 200, r.status, r.text)
	require.NotContains(t, r.text, "10.0.0.5")
}

// unreleasing is an issuer that grants at the end of a wait, and cannot release then.
type unreleasing struct{ *granting }

func (u unreleasing) Release(context.Context, token.Token) error { return token.ErrUnreachable }

func TestAGrantThatIsNotPassedOnIsUncertain(t *testing.T) {
	t.Parallel()
	locks := &granting{new(memtoken.Issuer), make(chan struct{})}
	s := &service{t: t, locks: locks.Issuer}
	s.Server = httptest.NewUnstartedServer(&httptoken.Handler{Issuer: unreleasing{locks}})
	base, stop := context.WithCancel(t.Context())
	s.Config.BaseContext = func(net.Listener) context.Context { return base }
	s.Start()
	t.Cleanup(s.Close)
	_, err := s.locks.Acquire(t.Context(), "job/report", "other", time.Hour)
	require.NoError(t, err)
	waited := make(chan reply, 1)
	go func() { waited <- s.send("PUT", lockPath, `{"holder":"w","ttl_ms":600000,"wait_ms":50000}`) }()
	<-locks.waits
	stop()
	require.Equal(t, 503, (<-waited).status)
	require.Contains(t, s.state("job/report").Holder, "w~")
}

func TestAGrantThatCannotBeSignedIsReleased(t *testing.T) {
	t.Parallel()
	s := newService(t, &httptoken.Handler{Keyring: new(signature.Keyring)}) // its keys are not loaded yet
	require.Equal(t, 500, s.send("PUT", lockPath, tryBody).status)
	require.Empty(t, s.state("job/report").Holder)
}

// heldFirst is a transport that replies to the first request that the lock is held.
type heldFirst struct {
	http.RoundTripper
	requests int
}

func (h *heldFirst) RoundTrip(r *http.Request) (*http.Response, error) {
	if h.requests++; h.requests > 1 {
		return h.RoundTripper.RoundTrip(r)
	}
	w := httptest.NewRecorder()
	w.WriteHeader(http.StatusConflict)
	_, _ = io.WriteString(w, `{"type":"`+httptoken.ProblemHeld+`","remaining_ms":1000}`)
	return w.Result(), nil
}

// hazard L27
func TestAWaitIsNotSentAgain(t *testing.T) {
	t.Parallel()
	own := httptest.NewTLSServer(nil)
	defer own.Close()
	roots := x509.NewCertPool()
	roots.AddCert(own.Certificate())
	base := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
	defer base.CloseIdleConnections()
	flaky := testenv.FlakyHTTP2(t, own.TLS.Certificates[0])
	iss := &httptoken.Issuer{URL: flaky.URL, Client: &http.Client{Transport: &heldFirst{RoundTripper: base}}}
	_, err := iss.Wait(t.Context(), "job/report", "a", time.Minute)
	require.Error(t, err)
	require.ErrorIs(t, err, token.ErrUnreachable)
	require.Equal(t, 2, flaky.Applied(), "the wait, and a release")
}

// Portals and proxies reply 200 to everything.
func TestASuccessOfAProxyIsNone(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"<html>Welcome", "", "{}", `{"token":"t","number":1,"expires_in_ms":60000`} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }))
		iss := &httptoken.Issuer{URL: server.URL, Client: server.Client()}
		tok := token.Token{Resource: "job/report", Number: 1, Holder: "a"}
		_, err := iss.Acquire(t.Context(), tok.Resource, tok.Holder, time.Minute)
		require.Error(t, err, text)
		_, err = iss.Renew(t.Context(), tok, time.Minute)
		require.Error(t, err, text)
		require.Error(t, iss.Release(t.Context(), tok), text)
		server.Close()
	}
}

// crowded is an issuer with long queues.
type crowded struct{ *memtoken.Issuer }

func (crowded) Locks(_ context.Context, prefix string) iter.Seq2[token.State, error] {
	return func(yield func(token.State, error) bool) {
		for n := range 20 {
			name := fmt.Sprintf("%s%02d", prefix, n)
			if !yield(token.State{Resource: name, Holder: "a", Waiters: slices.Repeat([]string{strings.Repeat("w", 187)}, 6_000)}, nil) {
				return
			}
		}
	}
}

func TestAPageOfLongQueuesIsShort(t *testing.T) {
	t.Parallel()
	s := newService(t, &httptoken.Handler{Issuer: crowded{new(memtoken.Issuer)}})
	require.Less(t, len(s.send("GET", "/v1/locks?prefix=job/", "").text), 2<<20)
	n := 0
	for _, err := range (&httptoken.Issuer{URL: s.URL, Client: s.Client()}).Locks(t.Context(), "job/") {
		require.NoError(t, err)
		n++
	}
	require.Equal(t, 20, n)
}

// Without keys a client can make up the token of a waiter, but only for a lock to which it has a
// right.
func TestATokenEndsNoWaitForAnotherLock(t *testing.T) {
	t.Parallel()
	s := newService(t, &httptoken.Handler{})
	_, err := s.locks.Acquire(t.Context(), "b/x", "other", time.Hour)
	require.NoError(t, err)
	waited := make(chan reply, 1)
	go func() { waited <- s.send("PUT", "/v1/locks/b/x", `{"holder":"w","ttl_ms":600000,"wait_ms":50000}`) }()
	s.awaitWaiters("b/x", 1)
	tok := fmt.Sprintf("1;r=%q;h=%q", "a/x", s.state("b/x").Waiters[0])
	require.Equal(t, 410, s.send("DELETE", "/v1/locks/a/x", fmt.Sprintf(`{"token":%q}`, tok)).status)
	require.NoError(t, s.locks.Release(t.Context(), token.Token{Resource: "b/x", Number: 1, Holder: "other"}))
	require.Equal(t, 200, (<-waited).status)
}

// slow is an issuer without a queue that replies late from its second call on.
type slow struct {
	token.Issuer
	calls atomic.Int64
}

func (s *slow) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	if s.calls.Add(1) > 1 {
		select {
		case <-ctx.Done():
			return token.Grant{}, context.Cause(ctx)
		case <-time.After(300 * time.Millisecond):
		}
	}
	return s.Issuer.Acquire(ctx, resource, holder, ttl)
}

func TestTheEndOfAWaitIsNoOutage(t *testing.T) {
	t.Parallel()
	locks := new(memtoken.Issuer)
	_, err := locks.Acquire(t.Context(), "job/report", "other", time.Hour)
	require.NoError(t, err)
	s := newService(t, &httptoken.Handler{Issuer: &slow{Issuer: locks}})
	require.Equal(t, 409, s.send("PUT", lockPath, `{"holder":"a","ttl_ms":1000,"wait_ms":150}`).status)
}
