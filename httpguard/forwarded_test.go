package httpguard_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/httpguard"
)

// behind calls back between the last byte of a body and the next look at it.
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

// forwarded sends a body through a reverse proxy, which last may tell to go
// behind its last byte. It returns the answer. The upstream tells read whether it
// has read the request to its end, which is to apply it.
func (o office) forwarded(t *testing.T, body io.Reader, read chan<- error, last func(tell func())) reply {
	t.Helper()
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
	m := httpguard.Middleware{Resources: accounts, Window: o.window}
	o.mux.Handle("/forwarded/{id}", m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = &behind{r.Body, manyBytes, func() { last(func() { o.put(35); <-r.Context().Done() }) }}
		forward.ServeHTTP(w, r.WithContext(context.WithoutCancel(r.Context()))) // it waits for the end of what was sent
	})))
	req, err := http.NewRequestWithContext(t.Context(), "PUT", o.URL+"/forwarded/42", body)
	require.NoError(t, err)
	req.Header.Set(httpguard.Header, line("account/42", 34, "a"))
	got := o.send(o.Client(), req)
	o.expect(t, 35).leave()
	return got
}

const manyBytes = 64 << 10 // more than net/http's buffers: the last one is sent before the end is known

func TestARequestThatTheUpstreamHasIsNotRefused(t *testing.T) {
	t.Parallel()
	everyWindow(t, func(t *testing.T, o office) {
		read := make(chan error, 1)
		got := o.forwarded(t, strings.NewReader(strings.Repeat("x", manyBytes)), read, func(tell func()) {
			assert.NoError(t, <-read, "it is applied")
			tell()
		})
		require.Equal(t, http.StatusOK, got.status)
	})
}

// Without a length nobody has the request before its end.
func TestARequestWhoseEndTheUpstreamDoesNotHaveIsRefused(t *testing.T) {
	t.Parallel()
	everyWindow(t, func(t *testing.T, o office) {
		body, rest := io.Pipe()
		go func() { _, _ = io.WriteString(rest, strings.Repeat("x", manyBytes)) }()
		read := make(chan error, 1)
		got := o.forwarded(t, body, read, func(tell func()) {
			tell()
			assert.NoError(t, rest.Close())
		})
		require.Error(t, <-read, "it is not applied")
		require.Equal(t, httpguard.ProblemStale, got.problem(t)["type"])
	})
}
