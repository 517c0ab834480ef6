package httpguard_test

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/internal/test/serverproc"
	"github.com/fencepost/fencepost/token"
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
	const kind, stale, reused = "application/problem+json", httpguard.ProblemStale, httpguard.ProblemKeyReused
	const ours, used = `{"type":"` + stale + `","resource":"a"}`, `{"type":"` + reused + `"}`
	several, one := holding(t.Context()), token.NewContext(t.Context(), tok("b", 1, "h"))
	keyed := httpguard.WithIdempotencyKey(t.Context(), "k")
	for name, c := range map[string]struct {
		ctx    context.Context
		status int
		kind   string
		body   string
		host   string // empty: api.example
		is     error
		token  string // the resource of the refused token, if the response identifies it
	}{
		"ours":                                  {several, 412, kind, ours, "", guard.ErrStale, "a"},
		"with a charset":                        {several, 412, "Application/Problem+JSON; charset=utf-8", ours, "", guard.ErrStale, "a"},
		"of a resource that was not sent":       {several, 412, kind, strings.Replace(ours, `"a"`, `"c"`, 1), "", guard.ErrStale, ""},
		"of another, and one was sent":          {one, 412, kind, ours, "", guard.ErrStale, ""},
		"of no resource":                        {several, 412, kind, `{"type":"` + stale + `"}`, "", guard.ErrStale, ""},
		"of no resource, and one was sent":      {one, 412, kind, `{"type":"` + stale + `"}`, "", guard.ErrStale, "b"},
		"the service's own 412":                 {several, 412, "application/json", `{"etag":"x"}`, "", nil, ""},
		"a 412 of another type":                 {several, 412, kind, `{"type":"about:blank"}`, "", nil, ""},
		"a 412 that is no JSON":                 {several, 412, kind, `<html>`, "", nil, ""},
		"our type with another status":          {several, 409, kind, ours, "", nil, ""},
		"a 412 that is longer than any of ours": {several, 412, kind, `{"detail":"` + strings.Repeat("x", 20<<10) + `",` + ours[1:], "", nil, ""},
		"a 412 to a request without a token":    {keyed, 412, kind, ours, "", nil, ""},
		"from a host that was sent no token":    {several, 412, kind, ours, "evil.example", nil, ""},
		"a key that was used":                   {keyed, 422, kind, used, "", guard.ErrKeyReused, ""},
		"the service's own 422":                 {keyed, 422, kind, `{"type":"about:blank"}`, "", nil, ""},
		"a used key with another status":        {keyed, 400, kind, used, "", nil, ""},
		"a used key, from another host":         {keyed, 422, kind, used, "evil.example", nil, ""},
		"a first request that still runs":       {keyed, 409, kind, `{"type":"` + httpguard.ProblemInProgress + `"}`, "", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := &closing{Reader: strings.NewReader(c.body)}
			transport := httpguard.Transport{Hosts: []string{"api.example"}, Base: tripFunc(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: c.status, Header: http.Header{"Content-Type": {c.kind}}, Body: body}, nil
			})}
			resp, err := transport.RoundTrip(request(t, c.ctx, "http://"+cmp.Or(c.host, "api.example")+"/x"))
			require.ErrorIs(t, err, c.is)
			require.NotErrorIs(t, err, guard.ErrUnknown)
			if c.is == nil {
				got, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.Equal(t, c.body, string(got), "as it was")
				require.NoError(t, resp.Body.Close())
			}
			require.True(t, body.closed)
			var refused *guard.StaleError
			require.Equal(t, c.token != "", errors.As(err, &refused))
			if refused != nil {
				require.Equal(t, c.token, refused.Token.Resource)
			}
		})
	}
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

// echo responds with the tokens and keys of the request, or redirects on one path.
func echo(to string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, strings.Join(append(r.Header[httpguard.Header], r.Header["Idempotency-Key"]...), "|"))
	})
	mux.Handle("/away", http.RedirectHandler(to, http.StatusTemporaryRedirect))
	return mux
}

func TestRedirectsDoNotLeakTokensOrKeys(t *testing.T) {
	t.Parallel()
	foreign := serve(t, echo(""), false)
	named := serve(t, echo(foreign.URL), false)
	back := serve(t, echo(named.URL), false)
	guarded := httpguard.Transport{Hosts: []string{named.Listener.Addr().String()}}
	t.Cleanup(guarded.CloseIdleConnections)
	none, held, keyed := t.Context(), holding(t.Context()), httpguard.WithIdempotencyKey(t.Context(), "k")
	for name, c := range map[string]struct {
		via   http.RoundTripper
		ctx   context.Context
		field string // by which the caller sets both tokens
		url   string
		want  string
	}{
		"a token":                           {guarded, held, "", named.URL, both},
		"a token, away":                     {guarded, held, "", named.URL + "/away", ""},
		"a token, back to a host in Hosts":  {guarded, held, "", back.URL + "/away", both},
		"a key":                             {guarded, keyed, "", named.URL, `"k"`},
		"a key, away":                       {guarded, keyed, "", named.URL + "/away", ""},
		"set by hand, away":                 {guarded, none, httpguard.Header, named.URL + "/away", ""},
		"set in lower case, away":           {guarded, none, "fencing-token", named.URL + "/away", ""},
		"the twin: net/http":                {http.DefaultTransport, none, httpguard.Header, named.URL + "/away", both},
		"the twin: net/http, in lower case": {http.DefaultTransport, none, "fencing-token", named.URL + "/away", both},
	} {
		t.Run(name, func(t *testing.T) {
			req := request(t, c.ctx, c.url)
			if c.field != "" {
				req.Header[c.field] = []string{both}
			}
			require.Equal(t, c.want, named.send(&http.Client{Transport: c.via}, req).body)
		})
	}
}
