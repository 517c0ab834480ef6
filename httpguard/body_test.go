package httpguard_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
)

// putting calls a handler with this body, and cancels the request while the handler reads
// it.
func putting(t *testing.T, body io.Reader, length int64, handler func(body io.Reader, tell func())) {
	t.Helper()
	m := httpguard.Middleware{Resources: accounts, InFlight: &httpguard.InFlight{}}
	r := matched(t.Context(), body, line("account/42", 34, "a"))
	r.ContentLength = length
	called := false
	m.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		called = true
		handler(r.Body, func() { require.Equal(t, http.StatusServiceUnavailable, newer(t, m)) })
	})).ServeHTTP(httptest.NewRecorder(), r)
	require.True(t, called)
}

// cut is a body that ends with an error: the connection is interrupted there.
type cut struct {
	*strings.Reader
	at func()
}

var errCut = errors.New("i/o timeout")

func (c cut) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		c.at()
		err = errCut
	}
	return n, err
}

// The handler reads a part of the body "older", the newer token comes, and the handler
// reads on to the end, twice.
func TestABodyEndsWithItsLastByte(t *testing.T) {
	t.Parallel()
	const now, atTheEnd, never = "now", "at the end", "never"
	for name, c := range map[string]struct {
		length, read int64
		comes        string // when the newer token does
		rest         string
		then         error
	}{
		"one that was read":                          {5, 5, now, "", nil},
		"one that was read in part":                  {5, 4, now, "", guard.ErrStale},
		"one that was not read":                      {5, 0, now, "", guard.ErrStale},
		"one without a length, whose end has not":    {-1, 5, now, "", guard.ErrStale},
		"one of net/http's clients without a length": {0, 0, now, "", guard.ErrStale},
		"one that was unpacked, beyond its length":   {3, 4, now, "", guard.ErrStale},
		"one that was unpacked, without a newer one": {3, 3, never, "er", nil},
		// Over HTTP/2 the end may come in a separate frame, long after the last byte.
		"one that is cut off after the last byte": {5, 0, atTheEnd, "older", nil},
		"one that is cut off in front of it":      {6, 0, atTheEnd, "older", guard.ErrStale},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var told func()
			var sent io.Reader = strings.NewReader("older")
			if c.comes == atTheEnd {
				sent = cut{strings.NewReader("older"), func() { told() }}
			}
			putting(t, sent, c.length, func(body io.Reader, tell func()) {
				told = sync.OnceFunc(tell)
				_, err := io.CopyN(io.Discard, body, c.read)
				require.NoError(t, err)
				if c.comes == now {
					tell()
				}
				rest, err := io.ReadAll(body)
				require.Equal(t, c.rest, string(rest))
				require.ErrorIs(t, err, c.then)
				require.Equal(t, c.comes == atTheEnd && c.then != nil, errors.Is(err, errCut))
				rest, err = io.ReadAll(body)
				require.Empty(t, rest)
				require.ErrorIs(t, err, c.then)
			})
		})
	}
}

// behind calls back between the last byte of a body and the next read.
type behind struct {
	io.ReadCloser
	left int
	last func()
}

func (b *behind) Read(p []byte) (int, error) {
	if b.left == 0 {
		b.last()
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= n
	return n, err
}

// forwarded sends a body through a reverse proxy, and returns the response. It calls last
// after the last byte of the body; last may dismiss the proxy's request by tell. sent is
// closed when the client has sent the end of the body. The upstream sends to read whether
// it has read the whole request, which stands for applying it.
func (o blockingSite) forwarded(t *testing.T, body io.Reader, read chan<- error, last func(tell func(), sent <-chan struct{})) reply {
	t.Helper()
	sent := make(chan struct{})
	onSent := sync.OnceFunc(func() { close(sent) })
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		read <- err
	}))
	t.Cleanup(upstream.Close)
	target, err := url.Parse(upstream.URL)
	require.NoError(t, err)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	forward := &httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:    transport,
		ErrorHandler: httpguard.Error,
	}
	m := httpguard.Middleware{Resources: accounts, InFlight: o.inFlight}
	o.mux.Handle("/forwarded/{id}", m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = &behind{r.Body, manyBytes, func() { last(func() { o.put(35); <-r.Context().Done() }, sent) }}
		forward.ServeHTTP(w, r.WithContext(context.WithoutCancel(r.Context()))) // it waits for the end of what was sent
	})))
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { onSent() }})
	got := o.send(o.Client(), o.request(ctx, "PUT", "/forwarded/42", body, line("account/42", 34, "a")))
	o.expect(t, 35).leave()
	return got
}

const manyBytes = 64 << 10 // more than net/http's buffers: the last byte is sent before the end is known

// The upstream has the whole request at its last byte if the length is known, and at the
// body's end if it is not.
func TestARequestThatTheUpstreamHasIsNotRefused(t *testing.T) {
	t.Parallel()
	many := strings.Repeat("x", manyBytes)
	overBothVersions(t, func(t *testing.T, o blockingSite) {
		read := make(chan error, 1)
		got := o.forwarded(t, strings.NewReader(many), read, func(tell func(), _ <-chan struct{}) {
			assert.NoError(t, <-read, "it is applied")
			tell()
		})
		require.Equal(t, http.StatusOK, got.status)
	})
	overBothVersions(t, func(t *testing.T, o blockingSite) {
		body, rest := io.Pipe()
		go func() { _, _ = io.WriteString(rest, many) }()
		read := make(chan error, 1)
		got := o.forwarded(t, body, read, func(tell func(), sent <-chan struct{}) {
			tell()
			assert.NoError(t, rest.Close())
			<-sent // else the server may close the connection first, and the client may fail to write
		})
		require.Error(t, <-read, "it is not applied")
		require.Equal(t, httpguard.ProblemStale, got.problem(t)["type"])
	})
}

// The upstream has the whole request when a newer token cancels its context. The outcome
// is unknown, so no response may state that nothing was applied.
func TestARequestThatIsCutOffIsNotRefused(t *testing.T) {
	t.Parallel()
	for name, transport := range map[string]func(host string) http.RoundTripper{
		"a plain transport":     func(string) http.RoundTripper { return http.DefaultTransport },
		"a host not named":      func(string) http.RoundTripper { return httpguard.Transport{Hosts: []string{"other.example"}} },
		"a host that was named": func(host string) http.RoundTripper { return httpguard.Transport{Hosts: []string{host}} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			arrived, resume, applied := make(chan struct{}), make(chan struct{}), make(chan struct{})
			upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, _ *http.Request) {
				close(arrived)
				<-resume
				close(applied)
			}))
			t.Cleanup(upstream.Close)
			u, err := url.Parse(upstream.URL)
			require.NoError(t, err)
			forward := httputil.NewSingleHostReverseProxy(u)
			forward.Transport, forward.ErrorHandler = transport(u.Host), httpguard.Error
			m := httpguard.Middleware{Resources: accounts, InFlight: &httpguard.InFlight{}, WaitTimeout: time.Minute}
			mux := http.NewServeMux()
			mux.Handle("/accounts/{id}", m.Wrap(forward))
			mux.Handle("/direct/{id}", m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
			s := serve(t, mux, false)
			req := s.request(t.Context(), "PUT", "/accounts/42", strings.NewReader("x"), line("account/42", 34, "a"))
			older := make(chan reply, 1)
			go func() { older <- s.send(s.Client(), req) }()
			<-arrived
			require.Equal(t, http.StatusOK, s.do("PUT", "/direct/42", line("account/42", 35, "b")).status)
			got := <-older
			close(resume)
			<-applied
			require.Equal(t, httpguard.ProblemUnknown, got.problem(t)["type"])
		})
	}
}
