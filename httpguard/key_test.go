package httpguard_test

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token"
)

func TestTransportWritesTheKey(t *testing.T) {
	t.Parallel()
	const host = "http://api.example"
	for name, c := range map[string]struct {
		key, method, url string
		set              http.Header
		want             string
		err              error
	}{
		"a key":                         {key: "8e03978e", want: `"8e03978e"`},
		"quotes and spaces":             {key: `a "b" \c`, want: `"a \"b\" \\c"`},
		"a safe method":                 {key: "k", method: "GET"},
		"another host":                  {key: "k", url: "http://evil.example"},
		"set by hand":                   {set: http.Header{"Idempotency-Key": {"k"}}, want: "k"},
		"set by hand, for another host": {set: http.Header{"Idempotency-Key": {"k"}}, url: "http://pay.example", want: "k"},
		"set twice, the same":           {key: "k", set: http.Header{"Idempotency-Key": {"k"}}, want: "k"},
		"set twice, and they differ":    {key: "k", set: http.Header{"Idempotency-Key": {"l"}}, err: httpguard.ErrTwoSources},
		"set twice, one in lower case":  {key: "k", set: http.Header{"idempotency-key": {"l"}}, err: httpguard.ErrTwoSources},
		"set by hand, two lines":        {key: "k", set: http.Header{"Idempotency-Key": {"k", "k"}}, err: httpguard.ErrTwoSources},
		"an empty key":                  {key: "-", err: token.ErrInvalid},
		"other letters":                 {key: "größe", err: token.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			if c.key != "" {
				ctx = httpguard.WithIdempotencyKey(ctx, strings.TrimPrefix(c.key, "-"))
			}
			if c.url == "" {
				c.url = host
			}
			req := request(t, ctx, c.url)
			if c.method != "" {
				req.Method = c.method
			}
			for name, values := range c.set {
				req.Header[name] = values
			}
			before := req.Header.Clone()
			out, err := pass(t, req, "api.example")
			require.ErrorIs(t, err, c.err)
			require.Equal(t, before, req.Header, "the caller's request is not touched")
			if c.err != nil {
				require.Nil(t, out, "nothing is sent")
				return
			}
			require.Equal(t, c.want, keyOf(out))
		})
	}
}

// keyOf returns the lines of the field. Transport changes the name's case, so that net/http
// does not recognize it.
func keyOf(req *http.Request) string {
	var lines []string
	for name, set := range req.Header {
		if strings.EqualFold(name, "Idempotency-Key") {
			lines = append(lines, set...)
		}
	}
	return strings.Join(lines, "|")
}

func TestTransportWritesKeyAndToken(t *testing.T) {
	t.Parallel()
	out, err := pass(t, request(t, httpguard.WithIdempotencyKey(holding(t.Context()), "k"), "http://api.example"), "api.example")
	require.NoError(t, err)
	require.Equal(t, both, out.Header.Get(httpguard.Header))
	require.Equal(t, `"k"`, keyOf(out))
}

func TestRedirectsDoNotLeakKeys(t *testing.T) {
	t.Parallel()
	echo := func(to string) http.Handler {
		mux := http.NewServeMux()
		mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, strings.Join(r.Header["Idempotency-Key"], "|"))
		})
		mux.Handle("/away", http.RedirectHandler(to, http.StatusTemporaryRedirect))
		return mux
	}
	foreign := serve(t, echo(""), false)
	named := serve(t, echo(foreign.URL), false)
	client := &http.Client{Transport: httpguard.Transport{Hosts: []string{named.Listener.Addr().String()}}}
	defer client.CloseIdleConnections()
	keyed := httpguard.WithIdempotencyKey(t.Context(), "k")
	require.Equal(t, `"k"`, named.send(client, request(t, keyed, named.URL)).body)
	require.Empty(t, named.send(client, request(t, keyed, named.URL+"/away")).body)
}

// hazard W14
// net/http repeats a request with a key whose body it can read again, also without a
// token. The caller decides about a repeat.
func TestAKeyedRequestIsSentOnce(t *testing.T) {
	t.Parallel()
	own := serve(t, nil, true)
	for name, server := range map[string]func() *testenv.FlakyServer{
		"HTTP/1.1": func() *testenv.FlakyServer { return testenv.Flaky(t) },
		"HTTP/2":   func() *testenv.FlakyServer { return testenv.FlakyHTTP2(t, own.TLS.Certificates[0]) },
	} {
		for body, read := range map[string]func() io.Reader{
			", without a body": func() io.Reader { return nil },
			", with a body":    func() io.Reader { return strings.NewReader("x") },
		} {
			t.Run(name+body, func(t *testing.T) {
				base := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: own.trust().RootCAs}}
				defer base.CloseIdleConnections()
				post := func(ctx context.Context, url string, via http.RoundTripper) error {
					get, err := http.NewRequestWithContext(ctx, "GET", url, nil)
					require.NoError(t, err)
					if name == "HTTP/1.1" {
						own.send(&http.Client{Transport: via}, get) // a connection to keep
					}
					req, err := http.NewRequestWithContext(ctx, "POST", url, read())
					require.NoError(t, err)
					if via == http.RoundTripper(base) {
						req.Header.Set("Idempotency-Key", `"k"`)
					}
					resp, err := via.RoundTrip(req)
					if err == nil {
						err = resp.Body.Close()
					}
					return err
				}
				flaky := server()
				_, host, _ := strings.Cut(flaky.URL, "://")
				keyed := httpguard.WithIdempotencyKey(t.Context(), "k")
				transport := httpguard.Transport{Base: base, Hosts: []string{host}}
				require.ErrorIs(t, post(keyed, flaky.URL, transport), guard.ErrUnknown)
				require.Equal(t, 1, flaky.Applied())
				require.NoError(t, post(keyed, flaky.URL, transport))
				require.Equal(t, 2, flaky.Applied())

				flaky = server()
				require.NoError(t, post(t.Context(), flaky.URL, base))
				require.Equal(t, 2, flaky.Applied(), "the twin: net/http alone")
			})
		}
	}
}

func TestWhichAnswersToKeysAreErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status    int
		typ, host string
		reused    bool
	}{
		"a key that was used":             {422, httpguard.ProblemKeyReused, "api.example", true},
		"the service's own 422":           {422, "about:blank", "api.example", false},
		"our type with another status":    {400, httpguard.ProblemKeyReused, "api.example", false},
		"from another host":               {422, httpguard.ProblemKeyReused, "evil.example", false},
		"a first request that still runs": {409, httpguard.ProblemInProgress, "api.example", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := `{"type":"` + c.typ + `"}`
			body := &closing{Reader: strings.NewReader(text)}
			transport := httpguard.Transport{Hosts: []string{"api.example"}, Base: tripFunc(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: c.status, Header: http.Header{"Content-Type": {"application/problem+json"}}, Body: body}, nil
			})}
			resp, err := transport.RoundTrip(request(t, httpguard.WithIdempotencyKey(t.Context(), "k"), "http://"+c.host))
			if c.reused {
				require.ErrorIs(t, err, guard.ErrKeyReused)
				require.NotErrorIs(t, err, guard.ErrUnknown)
				require.True(t, body.closed)
				return
			}
			require.NoError(t, err)
			got, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, text, string(got), "as it was")
			require.NoError(t, resp.Body.Close())
		})
	}
}

// A key that is written is read back. What is accepted without quotes is the same key with
// quotes, and a second line makes every field malformed.
func FuzzKey(f *testing.F) {
	for _, line := range []string{"k", `"k"`, `"k";v=1`, `a\b`, `"a\"b"`, "größe", "a,b", ""} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if text, err := httpguard.FormatKey(line); err == nil {
			key, err := httpguard.ParseKey([]string{text})
			require.NoError(t, err)
			require.Equal(t, line, key)
		}
		key, err := httpguard.ParseKey([]string{line})
		if err != nil {
			return
		}
		require.NotEmpty(t, key)
		text, err := httpguard.FormatKey(key)
		require.NoError(t, err)
		again, err := httpguard.ParseKey([]string{text})
		require.NoError(t, err)
		require.Equal(t, key, again)
		_, err = httpguard.ParseKey([]string{line, line})
		require.Error(t, err)
	})
}
