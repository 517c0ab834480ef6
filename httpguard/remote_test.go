package httpguard_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/internal/test/serverproc"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

func TestARemoteRefusalIsALocalOne(t *testing.T) {
	t.Parallel()
	b := &bank{}
	handler := func() http.Handler { return b.mux(httpguard.Middleware{Resources: accounts, Store: at(t)}) }
	everyProtocol(t, handler, func(t *testing.T, s site) {
		client := &http.Client{Transport: httpguard.Transport{Base: s.Client().Transport, Hosts: []string{s.Listener.Addr().String()}}}
		put := func(ctx context.Context) error {
			resp, err := client.Do(s.request(ctx, "PUT", "/accounts/42", strings.NewReader("100")))
			if err == nil {
				_ = resp.Body.Close()
			}
			return err
		}
		stale := tok("account/42", 32, "b")
		ctx := token.NewContext(token.NewContext(t.Context(), stale), tok("account/7", 1, "h"))
		err := put(httpguard.WithResources(ctx, "account/42", "account/7"))
		require.ErrorIs(t, err, guard.ErrStale)
		require.True(t, guard.IsRefusal(err))
		var refused *guard.StaleError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, guard.StaleError{Token: stale}, *refused, "the token of two, and no mark")
		require.NotContains(t, err.Error(), "#33")

		err = put(token.NewContext(t.Context(), tok("account/42", 33, "b")))
		require.ErrorIs(t, err, guard.ErrStale)
		require.NotErrorIs(t, err, guard.ErrCollision, "which would reveal the mark's number")
		require.NoError(t, put(token.NewContext(t.Context(), tok("account/42", 34, "b"))))
	})
}

func TestWhichAnswersAreErrors(t *testing.T) {
	t.Parallel()
	const ours = `{"type":"` + httpguard.ProblemStale + `","resource":"a"}`
	for name, c := range map[string]struct {
		status  int
		kind    string
		body    string
		host    string
		refused string // the resource of the refused token; "-" if the response does not identify it
	}{
		"ours":                                  {412, "application/problem+json", ours, "api.example", "a"},
		"with a charset":                        {412, "Application/Problem+JSON; charset=utf-8", ours, "api.example", "a"},
		"of a resource that was not sent":       {412, "application/problem+json", strings.Replace(ours, `"a"`, `"c"`, 1), "api.example", "-"},
		"of another, and one was sent":          {412, "application/problem+json", ours, "one.example", "-"},
		"of no resource":                        {412, "application/problem+json", `{"type":"` + httpguard.ProblemStale + `"}`, "api.example", "-"},
		"the service's own 412":                 {412, "application/json", `{"etag":"x"}`, "api.example", ""},
		"a 412 of another type":                 {412, "application/problem+json", `{"type":"about:blank"}`, "api.example", ""},
		"a 412 that is no JSON":                 {412, "application/problem+json", `<html>`, "api.example", ""},
		"our type with another status":          {409, "application/problem+json", ours, "api.example", ""},
		"a 412 that is longer than any of ours": {412, "application/problem+json", `{"detail":"` + strings.Repeat("x", 20<<10) + `",` + ours[1:], "api.example", ""},
		"from a host that was sent no token":    {412, "application/problem+json", ours, "evil.example", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := &closing{Reader: strings.NewReader(c.body)}
			ctx := holding(t.Context())
			if c.host == "one.example" {
				ctx = token.NewContext(t.Context(), tok("b", 1, "h"))
			}
			transport := httpguard.Transport{Hosts: []string{"api.example", "one.example"}, Base: tripFunc(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: c.status, Header: http.Header{"Content-Type": {c.kind}}, Body: body}, nil
			})}
			resp, err := transport.RoundTrip(request(t, ctx, "http://"+c.host+"/x"))
			if c.refused == "" {
				require.NoError(t, err)
				got, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.Equal(t, c.body, string(got), "as it was")
				require.NoError(t, resp.Body.Close())
				require.True(t, body.closed)
				return
			}
			require.Nil(t, resp)
			require.True(t, body.closed)
			require.ErrorIs(t, err, guard.ErrStale)
			var refused *guard.StaleError
			require.Equal(t, c.refused != "-", errors.As(err, &refused))
			if refused != nil {
				require.Equal(t, c.refused, refused.Token.Resource)
			}
		})
	}
}

// In a service between two others, the refusal of the upstream becomes its own response.
func TestARefusalTravelsBack(t *testing.T) {
	t.Parallel()
	inner := serve(t, (&bank{}).mux(httpguard.Middleware{Resources: accounts, Store: at(t)}), false)
	u, err := url.Parse(inner.URL)
	require.NoError(t, err)
	client := &http.Client{Transport: httpguard.Transport{Base: inner.Client().Transport, Hosts: []string{u.Host}}}
	mux := http.NewServeMux()
	mux.Handle("PUT /accounts/{id}", httpguard.Middleware{Resources: accounts}.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		req, err := http.NewRequestWithContext(r.Context(), "PUT", inner.URL+r.URL.Path, http.NoBody)
		if err == nil {
			_, err = client.Do(req)
		}
		httpguard.Error(w, r, err)
	})))
	got := serve(t, mux, false).do("PUT", "/accounts/42", line("account/42", 32, "b"))
	require.Equal(t, http.StatusPreconditionFailed, got.status)
	require.Equal(t, httpguard.ProblemStale, got.problem(t)["type"])
	require.Equal(t, "account/42", got.problem(t)["resource"])
}

func TestARequestWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	applied := make(chan struct{}, 1)
	service := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		select {
		case applied <- struct{}{}:
		default:
		}
		panic(http.ErrAbortHandler) // the connection breaks, and the work is done
	}), false)
	u, err := url.Parse(service.URL)
	require.NoError(t, err)
	absent := serverproc.Loopback(serverproc.FreePort(t))
	left, leave := context.WithCancel(holding(t.Context()))
	leave()
	for name, c := range map[string]struct {
		ctx         context.Context
		method, url string
		unknown     bool
	}{
		"a write under a token":           {holding(t.Context()), "PUT", service.URL, true},
		"a read under a token":            {holding(t.Context()), "GET", service.URL, false},
		"a write without a token":         {t.Context(), "PUT", service.URL, false},
		"an unreachable server":           {holding(t.Context()), "PUT", "http://" + absent, false},
		"a caller that had left":          {left, "PUT", service.URL, false},
		"a host that is sent no token to": {holding(t.Context()), "PUT", service.URL + "/elsewhere", false},
	} {
		t.Run(name, func(t *testing.T) {
			hosts := []string{u.Host, absent}
			if name == "a host that is sent no token to" {
				hosts = []string{"other.example"}
			}
			client := &http.Client{Transport: httpguard.Transport{Base: service.Client().Transport, Hosts: hosts}}
			req, err := http.NewRequestWithContext(c.ctx, c.method, c.url, http.NoBody)
			require.NoError(t, err)
			_, err = client.Do(req)
			require.Error(t, err)
			require.Equal(t, c.unknown, errors.Is(err, guard.ErrUnknown), "%v", err)
		})
	}
	require.NotEmpty(t, applied)
}

// The response depends on the handler's operation that was interrupted.
func TestErrorsOfAHandlerThatWasCancelled(t *testing.T) {
	t.Parallel()
	m := httpguard.Middleware{Resources: accounts, InFlight: &httpguard.InFlight{}}
	ctx, end := under(t, m)
	defer end()
	require.Equal(t, http.StatusServiceUnavailable, newer(t, m))
	cause := context.Cause(ctx)
	for name, c := range map[string]struct {
		err error
		typ string
	}{
		"a caller that was cancelled":             {context.Canceled, httpguard.ProblemUnknown},
		"a guard that was cancelled":              {guard.WithCause(ctx, context.Canceled), httpguard.ProblemStale},
		"a guard that names the cause":            {guard.WithCause(ctx, fmt.Errorf("nothing was sent: %w", cause)), httpguard.ProblemStale},
		"the cause itself":                        {cause, httpguard.ProblemUnknown},
		"a guard that is not sure":                {guard.WithCause(ctx, errors.Join(context.Canceled, guard.ErrUnknown)), httpguard.ProblemUnknown},
		"a request that was cut off":              {&url.Error{Op: "Put", URL: "http://x", Err: context.Canceled}, httpguard.ProblemUnknown},
		"a request that was cut off, and why":     {&url.Error{Op: "Put", URL: "http://x", Err: cause}, httpguard.ProblemUnknown},
		"a request that was refused further on":   {&url.Error{Op: "Put", URL: "http://x", Err: &guard.StaleError{Token: token.Token{}}}, httpguard.ProblemStale},
		"an error that has nothing to do with it": {errors.New("no such table"), "about:blank"},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			httpguard.Error(w, httptest.NewRequestWithContext(ctx, "PUT", "/accounts/42", nil), c.err)
			require.Contains(t, w.Body.String(), `"type":"`+c.typ+`"`)
		})
	}
}

// echo responds with the tokens of the request, or redirects on one path.
func echo(to string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, strings.Join(r.Header[httpguard.Header], "|"))
	})
	mux.Handle("/away", http.RedirectHandler(to, http.StatusTemporaryRedirect))
	return mux
}

func TestRedirectsDoNotLeakTokens(t *testing.T) {
	t.Parallel()
	foreign := serve(t, echo(""), false)
	named := serve(t, echo(foreign.URL), false)
	host := named.Listener.Addr().String()

	// The naive client sets the field itself: http.Client copies it to the redirect.
	req := request(t, t.Context(), named.URL+"/away")
	req.Header.Set(httpguard.Header, both)
	require.Equal(t, both, named.send(named.Client(), req).body, "the tokens were sent to another host")

	client := &http.Client{Transport: httpguard.Transport{Hosts: []string{host}}}
	defer client.CloseIdleConnections()
	require.Equal(t, both, named.send(client, request(t, holding(t.Context()), named.URL)).body)
	require.Empty(t, named.send(client, request(t, holding(t.Context()), named.URL+"/away")).body)

	req = request(t, t.Context(), named.URL+"/away")
	req.Header.Set(httpguard.Header, both)
	require.Empty(t, named.send(client, req).body, "nor is a field that was set by hand")

	// After a redirect back to a host in Hosts they are sent again.
	back := serve(t, echo(named.URL), false)
	require.Equal(t, both, named.send(client, request(t, holding(t.Context()), back.URL+"/away")).body)
}

func TestTransportOverHTTP2(t *testing.T) {
	t.Parallel()
	s := serve(t, echo(""), true)
	base := &http.Transport{TLSClientConfig: s.trust(), ForceAttemptHTTP2: true}
	client := &http.Client{Transport: httpguard.Transport{Base: base, Hosts: []string{s.Listener.Addr().String()}}}
	defer client.CloseIdleConnections()
	got := s.send(client, request(t, holding(t.Context()), s.URL))
	require.Equal(t, 2, got.major)
	require.Equal(t, both, got.body)
}

func TestFromLeaseToHandler(t *testing.T) {
	t.Parallel()
	b := &bank{}
	s := serve(t, b.mux(httpguard.Middleware{Resources: accounts, Store: at(t)}), false)
	client := &http.Client{
		Transport: httpguard.Transport{Hosts: []string{s.Listener.Addr().String()}},
		Timeout:   time.Minute,
	}
	defer client.CloseIdleConnections()
	locker := lock.Locker{Issuer: &memtoken.Issuer{}, Name: "größe", DangerouslyWithoutClaim: true}
	err := locker.Hold(t.Context(), "account/42", func(ctx context.Context) error {
		tok, err := token.FromContext(ctx, "account/42")
		require.NoError(t, err)
		require.Equal(t, http.StatusNoContent, s.send(client, request(t, ctx, s.URL+"/accounts/42")).status)
		require.Equal(t, []string{"PUT " + tok.String()}, b.written())
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, http.StatusPreconditionRequired,
		s.send(client, request(t, httptest.NewRequest("GET", "/", nil).Context(), s.URL+"/accounts/42")).status)
}
