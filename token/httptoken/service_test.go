package httptoken_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/httpguard/signature"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/httptoken"
	"github.com/fencepost/fencepost/token/memtoken"
	"github.com/fencepost/fencepost/token/redistoken"
)

// service is a handler over memory, and a client that can send anything.
type service struct {
	*httptest.Server
	t     *testing.T
	locks *memtoken.Issuer
}

func newService(t *testing.T, h *httptoken.Handler) *service {
	t.Helper()
	s := &service{t: t, locks: new(memtoken.Issuer)}
	if h.Issuer == nil {
		h.Issuer = s.locks
	}
	s.Server = httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

type reply struct {
	status int
	header http.Header
	text   string
	Token  string
	Number int64
	Type   string
	Holder string
	Detail string
	Report []string
}

// send sends a request. Each header is a name and a value.
func (s *service) send(method, path, body string, headers ...string) reply {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.URL, strings.NewReader(body))
	require.NoError(s.t, err)
	req.URL.Opaque = path // as it is
	for n := 0; n < len(headers); n += 2 {
		req.Header.Add(headers[n], headers[n+1])
	}
	if body != "" && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	client := *s.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.Do(req)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	r := reply{status: resp.StatusCode, header: resp.Header, text: string(text)}
	_ = json.Unmarshal(text, &r)
	return r
}

func (s *service) state(name string) token.State {
	s.t.Helper()
	state, err := s.locks.Inspect(s.t.Context(), name)
	require.NoError(s.t, err)
	return state
}

// awaitWaiters returns when the lock has n waiters.
func (s *service) awaitWaiters(name string, n int) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return len(s.state(name).Waiters) == n }, time.Minute, time.Millisecond)
}

// waiting sends a PUT, and returns a function that disconnects its client.
func (s *service) waiting(body string) (disconnect func()) {
	ctx, cancel := context.WithCancel(s.t.Context())
	gone := make(chan error, 1)
	go func() {
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, s.URL+lockPath, strings.NewReader(body))
		if err == nil {
			req.Header.Set("Content-Type", "application/json")
			_, err = s.Client().Do(req)
		}
		gone <- err
	}()
	return func() {
		cancel()
		require.ErrorIs(s.t, <-gone, context.Canceled)
	}
}

const (
	lockPath = "/v1/locks/job/report"
	tryBody  = `{"holder":"web-1","request":"r1","ttl_ms":600000}`
)

// hazard L28
func TestARepeatOfARequestGetsTheSameLock(t *testing.T) {
	t.Parallel()
	s := newService(t, &httptoken.Handler{})
	first := s.send("PUT", lockPath, tryBody)
	require.Equal(t, 200, first.status, first.text)
	holder := s.state("job/report").Holder
	require.Contains(t, holder, "web-1~")
	require.NotContains(t, first.text, "r1", "the request is a secret")

	again := s.send("PUT", lockPath, tryBody)
	require.Equal(t, 200, again.status)
	require.Equal(t, holder, s.state("job/report").Holder)
	require.GreaterOrEqual(t, again.Number, first.Number)

	// A restarted client has the same label, and another request, or none.
	for _, body := range []string{`{"holder":"web-1","request":"r2","ttl_ms":1000}`, `{"holder":"web-1","ttl_ms":1000}`} {
		r := s.send("PUT", lockPath, body)
		require.Equal(t, 409, r.status)
		require.Equal(t, httptoken.ProblemHeld, r.Type)
		require.Equal(t, "web-1", r.Holder)
		require.Equal(t, "1", r.header.Get("Retry-After"))
	}
	// The twin: a holder that names the process gets its predecessor's lock.
	_, err := s.locks.Acquire(t.Context(), "twin", "web-1", time.Hour)
	require.NoError(t, err)
	_, err = s.locks.Acquire(t.Context(), "twin", "web-1", time.Hour)
	require.NoError(t, err)

	require.Equal(t, 204, s.send("DELETE", lockPath, "", httpguard.Header, again.Token).status)
	require.Equal(t, 410, s.send("DELETE", lockPath, "", httpguard.Header, again.Token).status)
	require.Equal(t, 410, s.send("POST", lockPath+"/renew", `{"holder":"web-1","request":"r1","ttl_ms":1}`).status)
}

func TestADisconnectLeavesTheQueue(t *testing.T) {
	t.Parallel()
	s := newService(t, &httptoken.Handler{})
	_, err := s.locks.Acquire(t.Context(), "job/report", "other", time.Hour)
	require.NoError(t, err)
	disconnect := s.waiting(`{"holder":"w","ttl_ms":1000,"wait_ms":50000}`)
	s.awaitWaiters("job/report", 1)
	disconnect()
	s.awaitWaiters("job/report", 0)
}

// granting is an issuer that grants a lock to a waiter whose client has gone.
type granting struct {
	*memtoken.Issuer
	waits chan struct{}
}

func (g *granting) Wait(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	close(g.waits)
	<-ctx.Done()
	ctx = context.WithoutCancel(ctx)
	if err := g.Release(ctx, token.Token{Resource: resource, Number: 1, Holder: "other"}); err != nil {
		return token.Grant{}, err
	}
	return g.Issuer.Acquire(ctx, resource, holder, ttl)
}

func TestAGrantToAClientThatHasGoneIsPassedOn(t *testing.T) {
	t.Parallel()
	locks := &granting{new(memtoken.Issuer), make(chan struct{})}
	s := newService(t, &httptoken.Handler{Issuer: locks})
	s.locks = locks.Issuer
	other, err := locks.Acquire(t.Context(), "job/report", "other", time.Hour)
	require.NoError(t, err)
	disconnect := s.waiting(`{"holder":"w","ttl_ms":600000,"wait_ms":50000}`)
	<-locks.waits
	disconnect()
	require.Eventually(t, func() bool {
		now := s.state("job/report")
		return now.Number > other.Token.Number && now.Holder == ""
	}, time.Minute, time.Millisecond)
}

func TestAReleaseEndsTheWaitOfItsRequest(t *testing.T) {
	t.Parallel()
	s := newService(t, &httptoken.Handler{})
	_, err := s.locks.Acquire(t.Context(), "job/report", "other", time.Hour)
	require.NoError(t, err)
	waited := make(chan reply, 1)
	go func() {
		waited <- s.send("PUT", lockPath, `{"holder":"web-1","request":"r1","ttl_ms":600000,"wait_ms":50000}`)
	}()
	s.awaitWaiters("job/report", 1)
	require.Equal(t, 204, s.send("DELETE", lockPath, `{"holder":"web-1","request":"r1"}`).status)
	require.Empty(t, s.state("job/report").Waiters)
	require.Equal(t, 409, (<-waited).status)
}

// A replica that is stopped ends its waits, so that the clients wait at another one.
func TestTheEndOfTheBaseContextEndsTheWaits(t *testing.T) {
	t.Parallel()
	s := &service{t: t, locks: new(memtoken.Issuer)}
	s.Server = httptest.NewUnstartedServer(&httptoken.Handler{Issuer: s.locks})
	base, stop := context.WithCancel(t.Context())
	s.Config.BaseContext = func(net.Listener) context.Context { return base }
	s.Start()
	t.Cleanup(s.Close)
	_, err := s.locks.Acquire(t.Context(), "job/report", "other", time.Hour)
	require.NoError(t, err)
	waited := make(chan reply, 1)
	go func() { waited <- s.send("PUT", lockPath, `{"holder":"w","ttl_ms":600000,"wait_ms":50000}`) }()
	s.awaitWaiters("job/report", 1)
	stop()
	r := <-waited
	require.Equal(t, 409, r.status, r.text)
	require.Equal(t, "other", r.Holder)
}

func TestAWaitUnderACancelledContextReleasesNothing(t *testing.T) {
	t.Parallel()
	s := newService(t, &httptoken.Handler{})
	iss := &httptoken.Issuer{URL: s.URL, Client: s.Client()}
	grant, err := iss.Acquire(t.Context(), "job/report", "a", time.Hour)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = iss.Wait(ctx, "job/report", "a", time.Hour)
	require.ErrorIs(t, err, context.Canceled)
	_, err = iss.Renew(t.Context(), grant.Token, time.Hour)
	require.NoError(t, err)
}

func TestTheIssuerFollowsNoRedirect(t *testing.T) {
	t.Parallel()
	s := newService(t, &httptoken.Handler{})
	from := httptest.NewServer(http.RedirectHandler(s.URL+lockPath, http.StatusTemporaryRedirect))
	t.Cleanup(from.Close)
	_, err := (&httptoken.Issuer{URL: from.URL, Client: from.Client()}).Acquire(t.Context(), "job/report", "a", time.Hour)
	require.ErrorContains(t, err, "307 Temporary Redirect")
	require.NotErrorIs(t, err, token.ErrUnreachable)
	require.Empty(t, s.state("job/report").Holder)
}

func TestOnlyAnOutageIsRepeated(t *testing.T) {
	t.Parallel()
	down, ring := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1}), redis.NewRing(&redis.RingOptions{})
	t.Cleanup(func() {
		require.NoError(t, down.Close())
		require.NoError(t, ring.Close())
	})
	for curable, client := range map[bool]redis.UniversalClient{true: down, false: ring} { // redistoken refuses a Ring
		s := newService(t, &httptoken.Handler{Issuer: &redistoken.Issuer{Client: client}})
		_, err := (&httptoken.Issuer{URL: s.URL, Client: s.Client()}).Acquire(t.Context(), "job/report", "a", time.Hour)
		require.Error(t, err)
		require.Equal(t, curable, errors.Is(err, token.ErrUnreachable), err.Error())
	}
}

// late is an issuer whose waiters leave late: as on a server, that frees what the holder has,
// wherever it was granted.
type late struct {
	*memtoken.Issuer
	waits, ended, leaves, left chan struct{}
}

func (l *late) Wait(ctx context.Context, resource, holder string, _ time.Duration) (token.Grant, error) {
	close(l.waits)
	<-ctx.Done()
	close(l.ended)
	<-l.leaves
	_ = l.Release(context.WithoutCancel(ctx), token.Token{Resource: resource, Number: 1, Holder: holder})
	close(l.left)
	return token.Grant{}, context.Cause(ctx)
}

// The wait that a client has left ends in one replica after the repeat was granted in another.
//
// hazard L27
func TestAClientMakesANewRequestAfterAWaitWithoutAReply(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		request string
		renewed int
	}{"a new request": {"r2", 200}, "the twin repeats the request": {"r1", 410}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			locks := &late{new(memtoken.Issuer), make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})}
			one, two := newService(t, &httptoken.Handler{Issuer: locks}), newService(t, &httptoken.Handler{Issuer: locks})
			other, err := locks.Acquire(t.Context(), "job/report", "other", time.Hour)
			require.NoError(t, err)
			disconnect := one.waiting(`{"holder":"web-1","request":"r1","ttl_ms":600000,"wait_ms":50000}`)
			<-locks.waits
			disconnect()
			<-locks.ended
			require.NoError(t, locks.Release(t.Context(), other.Token))
			next := fmt.Sprintf(`{"holder":"web-1","request":%q,"ttl_ms":600000}`, c.request)
			require.Equal(t, 200, two.send("PUT", lockPath, next).status)
			close(locks.leaves)
			<-locks.left
			require.Equal(t, c.renewed, two.send("POST", lockPath+"/renew", next).status)
		})
	}
}

// In one replica a repeat waits for the end of the request before it.
func TestARepeatEndsTheWaitBeforeIt(t *testing.T) {
	t.Parallel()
	s := newService(t, &httptoken.Handler{})
	other, err := s.locks.Acquire(t.Context(), "job/report", "other", time.Hour)
	require.NoError(t, err)
	waiting := `{"holder":"web-1","request":"r1","ttl_ms":600000,"wait_ms":50000}`
	replies := make(chan reply, 2)
	for range 2 {
		go func() { replies <- s.send("PUT", lockPath, waiting) }()
		s.awaitWaiters("job/report", 1)
	}
	require.Equal(t, 409, (<-replies).status)
	s.awaitWaiters("job/report", 1)
	require.NoError(t, s.locks.Release(t.Context(), other.Token))
	require.Equal(t, 200, (<-replies).status)
	require.Equal(t, 200, s.send("POST", lockPath+"/renew", tryBody).status)
}

func TestWaitersAreBounded(t *testing.T) {
	t.Parallel()
	rights := new(httptoken.Rights)
	require.NoError(t, rights.Replace(line("a", "a", "acquire", "*")+line("b", "b", "acquire", "*")))
	s := newService(t, &httptoken.Handler{MaxWaiters: 2, Rights: rights})
	_, err := s.locks.Acquire(t.Context(), "job/report", "other", time.Hour)
	require.NoError(t, err)
	wait := func(client string, ms int) reply {
		return s.send("PUT", lockPath, fmt.Sprintf(`{"holder":"w","ttl_ms":1000,"wait_ms":%d}`, ms), "Authorization", "Bearer "+client)
	}
	done := make(chan reply, 3)
	for n, client := range []string{"a", "a", "b"} {
		go func() { done <- wait(client, 50_000) }()
		s.awaitWaiters("job/report", n+1)
	}
	r := wait("a", 1)
	require.Equal(t, 429, r.status)
	require.Equal(t, httptoken.ProblemBusy, r.Type)
	require.Equal(t, "1", r.header.Get("Retry-After"))
	require.Equal(t, 409, wait("a", 0).status, "a try does not wait")
	require.Equal(t, 409, wait("b", 1).status)
	require.NoError(t, s.locks.Release(t.Context(), token.Token{Resource: "job/report", Number: 1, Holder: "other"}))
	for range 3 {
		r := <-done
		require.Equal(t, 200, r.status, r.text)
		require.Equal(t, 204, s.send("DELETE", lockPath, "", httpguard.Header, r.Token, "Authorization", "Bearer a").status)
	}
	_, err = s.locks.Acquire(t.Context(), "job/report", "other", time.Hour)
	require.NoError(t, err)
	require.Equal(t, 409, wait("a", 1).status, "the others have left")
}

func line(name, bearer, rights, prefixes string) string {
	return fmt.Sprintf("%s %x %s %s\n", name, sha256.Sum256([]byte(bearer)), rights, prefixes)
}

func TestRights(t *testing.T) {
	t.Parallel()
	rights := new(httptoken.Rights)
	s := newService(t, &httptoken.Handler{Rights: rights})
	requests := map[string]func(name, bearer string) reply{
		"acquire": func(name, bearer string) reply {
			return s.send("PUT", "/v1/locks/"+name, tryBody, "Authorization", bearer)
		},
		"renew": func(name, bearer string) reply {
			return s.send("POST", "/v1/locks/"+name+"/renew", tryBody, "Authorization", bearer)
		},
		"inspect": func(name, bearer string) reply { return s.send("GET", "/v1/locks/"+name, "", "Authorization", bearer) },
		"list": func(name, bearer string) reply {
			return s.send("GET", "/v1/locks?prefix="+name, "", "Authorization", bearer)
		},
		"break": func(name, bearer string) reply {
			return s.send("POST", "/v1/locks/"+name+"/break", `{"holder":"x","reason":"y"}`, "Authorization", bearer)
		},
		"release": func(name, bearer string) reply {
			return s.send("DELETE", "/v1/locks/"+name, `{"holder":"web-1","request":"r1"}`, "Authorization", bearer)
		},
	}
	right := map[string]string{"acquire": "acquire", "renew": "acquire", "release": "acquire", "inspect": "read", "list": "read", "break": "break"}
	count := func(name, bearer string, allowed func(right string) bool) (n int) {
		for what, send := range requests {
			r := send(name, bearer)
			if allowed(right[what]) {
				require.NotContains(t, []int{401, 403}, r.status, "%s of %s by %s", what, name, bearer)
			} else {
				require.Contains(t, []int{401, 403}, r.status, "%s of %s by %s", what, name, bearer)
			}
			n++
		}
		return n
	}
	none := func(string) bool { return false }
	n := count("job/a", "Bearer one", none) // no credentials yet
	require.NoError(t, rights.Replace(line("one", "one", "acquire,read", "job/ x/")+line("two", "two", "break", "*")+line("three", "three", "read", "job/a/")))
	for _, name := range []string{"job/a", "job/a/b", "job%2Fa", "x/y"} {
		n += count(name, "Bearer one", func(right string) bool { return right != "break" })
		n += count(name, "bearer two", func(right string) bool { return right == "break" })
		n += count(name, "Bearer three", func(right string) bool { return right == "read" && name == "job/a/b" })
	}
	for _, name := range []string{"job", "jo", "jobs/a", "y/job/a", "JOB/a", "job%252Fa", "%6Aob", "x"} {
		n += count(name, "Bearer one", none)
		n += count(name, "Bearer three", none)
	}
	for _, bearer := range []string{"", "Bearer", "Bearer ", "Bearer onE", "Bearer one,two", "Basic one", "one", "Bearer on", "Bearer " + fmt.Sprintf("%x", sha256.Sum256([]byte("one")))} {
		n += count("job/a", bearer, none)
	}
	require.Equal(t, "Bearer", s.send("GET", lockPath, "").header.Get("WWW-Authenticate"))
	require.Equal(t, 401, s.send("GET", lockPath, "", "Authorization", "Bearer one", "Authorization", "Bearer two").status)
	for name, bad := range map[string]string{
		"no slash": line("a", "a", "read", "job"), "no right": line("a", "a", "write", "*"), "no prefix": line("a", "a", "read", ""),
		"twice": line("a", "a", "read", "*") + line("a", "b", "read", "*"), "no hash": "a secret read *",
		"no token": line("a", "", "read", "*"), "a hash twice": line("a", "a", "read", "*") + line("b", "a", "acquire", "*"),
	} {
		err := rights.Replace("# rights\n" + bad)
		require.ErrorContains(t, err, "of the rights", name)
		require.NotContains(t, err.Error(), "secret", name)
		n += count("job/a", "Bearer one", func(right string) bool { return right != "break" }) // as before
	}
	require.NoError(t, rights.Replace(""))
	n += count("job/a", "Bearer one", none)
	t.Logf("%d requests", n)
}

// An outsider, and a client that has read everything that the service shows about another's
// lock, send what they can think of. The lock stays.
//
// hazard L29
func TestHostileRequestsChangeNothing(t *testing.T) {
	t.Parallel()
	keys, err := signature.New(signature.Key{ID: "k", Secret: []byte(strings.Repeat("s", signature.MinSecret))})
	require.NoError(t, err)
	s := newService(t, &httptoken.Handler{Keyring: keys})
	victim := s.send("PUT", lockPath, tryBody)
	require.Equal(t, 200, victim.status)
	before := s.state("job/report")
	unsigned, err := httpguard.Format(token.Token{Resource: "job/report", Number: victim.Number, Holder: before.Holder})
	require.NoError(t, err)
	mine := s.send("PUT", "/v1/locks/job/mine", tryBody)

	names := []string{
		"job/report", "job%2Freport", "job/./report", "job//report", "job/x/../report", "job/report/", "/job/report", "job/%2E%2E/report",
		"job/report%00", "job/report%0A", "job/%72eport", "job/report%ff", "job/report%25", strings.Repeat("n", 201), "", ".", "..", "%2E%2E",
	}
	tokens := []string{
		"", unsigned, mine.Token, victim.Token + "x", victim.Token + ", " + mine.Token, strings.Replace(victim.Token, "job/report", "job/other", 1),
		strings.Replace(victim.Token, `k="k"`, `k="x"`, 1), strings.ToUpper(victim.Token), "33", strings.Repeat("t", 3000), `()`, victim.Token + ", " + victim.Token,
	}
	bodies := []string{
		`{"holder":"web-1","request":"r0"`, `[]`, `null`, `"x"`, `{}{}`, `{"ttl_ms":1}`, "\xff", `{"ttl_ms":1e99}`, `{"ttl_ms":1.5}`, `{"ttl_ms":-1}`,
		`{"holder":"web-1","holder":"web-1","request":"r1","ttl_ms":1}`, `{"Holder":"web-1","request":"r1","ttl_ms":1}`,
		`{"holder":"web-1","request":"r1","ttl_ms":1,"ttl_ms":2}`, `{"holder":"web-1","request":"r1","ttl_ms":1,"__proto__":{}}`,
		`{"holder":"web-1","request":"","ttl_ms":1000}`, `{"holder":"` + before.Holder + `","request":"r1","ttl_ms":1000}`,
		`{"holder":"web-1","request":"` + before.Holder + `","ttl_ms":1000}`, `{"holder":{"a":1},"ttl_ms":1}`, strings.Repeat(`[`, 4000), strings.Repeat(" ", 5000),
		`{"token":"33","ttl_ms":1}`, `{"token":` + fmt.Sprintf("%q", unsigned) + `,"ttl_ms":1000}`, `{"token":` + fmt.Sprintf("%q", mine.Token) + `,"ttl_ms":1000}`,
	}
	n := 0
	attack := func(method, path, body string, headers ...string) {
		n++
		r := s.send(method, path, body, headers...)
		require.Less(t, r.status, 500, "%s %s %q: %s", method, path, body, r.text)
		require.NotContains(t, r.text, before.Holder, "%s %s %q", method, path, body)
		now := s.state("job/report")
		require.Equal(t, before.Holder, now.Holder, "%s %s %q %q: %s", method, path, body, headers, r.text)
		require.Greater(t, now.Remaining, time.Minute, "%s %s %q %q: %s", method, path, body, headers, r.text)
	}
	for _, name := range names {
		for _, tok := range tokens {
			attack("DELETE", "/v1/locks/"+name, "", httpguard.Header, tok)
			attack("POST", "/v1/locks/"+name+"/renew", `{"ttl_ms":1}`, httpguard.Header, tok)
			attack("DELETE", "/v1/locks/"+name, fmt.Sprintf(`{"token":%q}`, tok))
		}
		for _, body := range bodies {
			for _, method := range []string{"PUT", "DELETE", "PATCH"} {
				attack(method, "/v1/locks/"+name, body)
			}
			attack("POST", "/v1/locks/"+name+"/renew", body)
			attack("POST", "/v1/locks/"+name+"/break", body)
		}
	}
	for _, name := range []string{"job/report%00", "job/report%0A", "job/report%ff", strings.Repeat("n", 201), "job//report", "job/x/../report", "job/./report", "job/report/"} {
		require.Equal(t, 400, s.send("GET", "/v1/locks/"+name, "").status, name)
	}
	// What a page in a browser can make its user send.
	for _, headers := range [][]string{{"Content-Type", "text/plain"}, {"Origin", "https://example.com"}, {"Origin", "null"}} {
		attack("DELETE", lockPath, `{"holder":"web-1","request":"r1"}`, headers...)
	}
	require.Equal(t, 204, s.send("DELETE", "/v1/locks/job/mine", "", httpguard.Header, mine.Token).status, "it was not released by another lock's path")
	t.Logf("%d requests", n)
	require.Equal(t, 204, s.send("DELETE", lockPath, "", httpguard.Header, victim.Token).status)

	// The twin has no keys: what a reader of the holder makes up releases the lock.
	twin := newService(t, &httptoken.Handler{})
	require.Equal(t, 200, twin.send("PUT", lockPath, tryBody).status)
	made, err := httpguard.Format(token.Token{Resource: "job/report", Number: 1, Holder: twin.state("job/report").Holder})
	require.NoError(t, err)
	require.Equal(t, 204, twin.send("DELETE", lockPath, "", httpguard.Header, made).status)
}

// broken is a guard that does not answer.
type broken struct{ guard.Store }

func (broken) Admit(context.Context, token.Token) error { return errors.New("no answer") }

func TestBreak(t *testing.T) {
	t.Parallel()
	var marks guard.Memory
	s := newService(t, &httptoken.Handler{Guards: map[string]guard.Store{"accounts": &marks}})
	tok := func(r reply) token.Token {
		toks, err := httpguard.Parse([]string{r.Token})
		require.NoError(t, err)
		return toks[0]
	}
	breakOf := func(s *service, holder, more string) reply {
		return s.send("POST", lockPath+"/break", fmt.Sprintf(`{"holder":%q,"reason":"hangs"%s}`, holder, more))
	}
	deposed := tok(s.send("PUT", lockPath, tryBody))
	require.NoError(t, marks.Admit(t.Context(), deposed))
	require.Equal(t, 409, breakOf(s, "web-1", "").status, "a label is not the holder")
	require.Equal(t, 400, s.send("POST", lockPath+"/break", fmt.Sprintf(`{"holder":%q}`, deposed.Holder)).status)
	done := breakOf(s, deposed.Holder, "")
	require.Equal(t, 200, done.status, done.text)
	require.Greater(t, done.Number, deposed.Number)
	require.Equal(t, []string{
		"guard: accounts: it has admitted the number, and refuses lower ones", "lease: freed", "next: none: the lock is free",
	}, done.Report)
	require.ErrorIs(t, marks.Admit(t.Context(), deposed), guard.ErrStale)
	next := tok(s.send("PUT", lockPath, `{"holder":"web-2","ttl_ms":600000}`))
	require.Greater(t, next.Number, done.Number)
	require.NoError(t, marks.Admit(t.Context(), next))
	require.Equal(t, 409, breakOf(s, deposed.Holder, "").status, "a successor is spared")

	// The twin is unfenced: the deposed holder still writes.
	require.Equal(t, 200, breakOf(s, next.Holder, `,"unfenced":true`).status)
	require.Equal(t, 410, s.send("DELETE", lockPath, fmt.Sprintf(`{"token":%q}`, "1;r=\"job/report\";h=\""+next.Holder+"\"")).status)
	require.NoError(t, marks.Admit(t.Context(), next))

	// Without a guard, and with one that does not answer, the lease stays.
	for status, guards := range map[int]map[string]guard.Store{412: nil, 503: {"accounts": broken{}}} {
		s := newService(t, &httptoken.Handler{Guards: guards})
		kept := tok(s.send("PUT", lockPath, tryBody))
		require.Equal(t, status, breakOf(s, kept.Holder, "").status)
		require.Equal(t, kept.Holder, s.state("job/report").Holder)
	}
}

func TestLocksAreListedInPages(t *testing.T) {
	t.Parallel()
	s := newService(t, &httptoken.Handler{})
	for n := range 2500 {
		_, err := s.locks.Acquire(t.Context(), fmt.Sprintf("job/%04d", n), "a", time.Hour)
		require.NoError(t, err)
	}
	iss := &httptoken.Issuer{URL: s.URL, Client: s.Client()}
	n := 0
	for state, err := range iss.Locks(t.Context(), "job/") {
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("job/%04d", n), state.Resource)
		n++
	}
	require.Equal(t, 2500, n)
	for _, query := range []string{"limit=0", "limit=1001", "limit=x", "prefix=a&prefix=b", "x=1", "%zz", "prefix=%00", "prefix=%ff"} {
		require.Equal(t, 400, s.send("GET", "/v1/locks?"+query, "").status, query)
	}
}

// Clients that never send the rest of their bodies get a reply after ten seconds. Others are
// served meanwhile.
func TestStressSlowClients(t *testing.T) {
	t.Parallel()
	s := newService(t, &httptoken.Handler{})
	const slow = 500
	replies := make(chan string, slow)
	heads := []string{"PUT /v1/locks/job/report", "GET /v1/locks/never", "PATCH /v1/locks/job/report", "GET /openapi.json"} // most do not read the body
	for n := range slow {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.Listener.Addr().String())
		require.NoError(t, err)
		_, err = io.WriteString(conn, heads[n%4]+" HTTP/1.1\r\nHost: locks\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
		require.NoError(t, err)
		go func() {
			defer conn.Close()
			text, _ := io.ReadAll(conn)
			replies <- string(text)
		}()
	}
	require.Equal(t, 200, s.send("PUT", lockPath, tryBody).status)
	for range slow {
		require.Contains(t, <-replies, "HTTP/1.1 ")
	}
	require.Equal(t, 200, s.send("POST", lockPath+"/renew", tryBody).status)
}
