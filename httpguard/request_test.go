package httpguard_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/token"
)

// under returns the context of a handler for one request under token 34, and a function
// that ends the request.
func under(t *testing.T, m httpguard.Middleware) (ctx context.Context, end func()) {
	t.Helper()
	return underDoing(t, m, func() {})
}

// underDoing is under with a function that the handler calls at its end.
func underDoing(t *testing.T, m httpguard.Middleware, last func()) (ctx context.Context, end func()) {
	t.Helper()
	ctxs, ending, ended := make(chan context.Context), make(chan struct{}), make(chan struct{})
	handler := m.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		ctxs <- r.Context()
		<-ending
		last()
	}))
	r := matched(t.Context(), nil, line("account/42", 34, "a"))
	go func() {
		defer close(ended)
		handler.ServeHTTP(httptest.NewRecorder(), r)
	}()
	select {
	case ctx := <-ctxs:
		return ctx, func() { close(ending); <-ended }
	case <-ended:
		require.Fail(t, "refused")
		return nil, nil
	}
}

// newer sends a request of 35 that does not wait.
func newer(t *testing.T, m httpguard.Middleware) int {
	t.Helper()
	return newerDoing(t, m, http.NotFound)
}

func newerDoing(t *testing.T, m httpguard.Middleware, do http.HandlerFunc) int {
	t.Helper()
	m.WaitTimeout = time.Millisecond
	w := httptest.NewRecorder()
	m.Wrap(do).ServeHTTP(w, matched(t.Context(), nil, line("account/42", 35, "b")))
	return w.Code
}

// The handler's context, and those that a handler derives from it.
func TestTheHandlersContext(t *testing.T) {
	t.Parallel()
	m := httpguard.Middleware{Resources: accounts, InFlight: &httpguard.InFlight{}}
	contexts := func(ctx context.Context) []context.Context {
		type key struct{}
		ended, end := context.WithCancel(ctx)
		late, cancel := context.WithTimeout(ctx, time.Hour)
		t.Cleanup(end)
		t.Cleanup(cancel)
		return []context.Context{ctx, ended, late, context.WithValue(ctx, key{}, 1), token.NewContext(ctx, tok("b", 1, "h"))}
	}
	ctx, end := under(t, m)
	derived := contexts(ctx)
	after := make(chan struct{}, len(derived))
	for _, ctx := range derived {
		require.NoError(t, ctx.Err())
		require.NoError(t, context.Cause(ctx))
		got, err := token.FromContext(ctx, "account/42")
		require.NoError(t, err)
		require.EqualValues(t, 34, got.Number)
		context.AfterFunc(ctx, func() { after <- struct{}{} })
	}
	require.Equal(t, http.StatusServiceUnavailable, newer(t, m))
	for _, ctx := range derived {
		<-ctx.Done()
		<-after
		require.Equal(t, context.Canceled, ctx.Err())
		require.ErrorIs(t, context.Cause(ctx), guard.ErrStale)
	}
	end()
	for _, ctx := range derived {
		require.ErrorIs(t, context.Cause(ctx), guard.ErrStale, "the first cause stays")
	}

	ctx, end = under(t, httpguard.Middleware{Resources: accounts, InFlight: &httpguard.InFlight{}})
	derived = contexts(ctx)
	end()
	for _, ctx := range derived {
		<-ctx.Done()
		require.Equal(t, context.Canceled, ctx.Err(), "it ends with the handler")
		require.NotErrorIs(t, context.Cause(ctx), guard.ErrStale)
	}
}

// The body has been read, so the server itself reads the connection, to detect that the
// client disconnects. A read deadline would look like that, and cancel the context of
// every later request on the connection.
func TestAConnectionSurvivesADismissal(t *testing.T) {
	t.Parallel()
	o := open(t, false)
	later := make(chan error, 1)
	o.mux.HandleFunc("GET /plain", func(_ http.ResponseWriter, r *http.Request) { later <- r.Context().Err() })
	conn := o.dial()
	answers := bufio.NewReader(conn)
	_, err := fmt.Fprintf(conn, "PUT /accounts/42 HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nFencing-Token: %s\r\n\r\nhi", line("account/42", 34, "a"))
	require.NoError(t, err)
	older := o.expect(t, 34)
	_, err = io.ReadAll(older.r.Body)
	require.NoError(t, err)
	newer := o.put(35)
	older.dismissed(t)
	_, err = older.r.Body.Read(make([]byte, 1))
	require.Equal(t, io.EOF, err, "the connection is not read")
	older.leave()
	o.expect(t, 35).leave()
	require.Equal(t, http.StatusNoContent, (<-newer).status)

	resp, err := http.ReadResponse(answers, nil)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusNoContent, resp.StatusCode)
	require.False(t, resp.Close)
	_, err = io.WriteString(conn, "GET /plain HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	require.NoError(t, <-later)
}

// The read deadline that ends the reading of a body may have ended the server's own reading
// too, so the connection serves no other request.
func TestAConnectionWhoseBodyWasNotReadIsClosed(t *testing.T) {
	t.Parallel()
	o := open(t, false)
	conn := o.dial()
	_, err := fmt.Fprintf(conn, "PUT /accounts/42 HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nFencing-Token: %s\r\n\r\nhi", line("account/42", 34, "a"))
	require.NoError(t, err)
	older := o.expect(t, 34)
	newer := o.put(35)
	older.dismissed(t)
	older.finish(func() {}) // the header is written after it has returned
	o.expect(t, 35).leave()
	require.Equal(t, http.StatusNoContent, (<-newer).status)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.True(t, resp.Close)
}
