package httpguard_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/token"
)

// desk is a handler that stays at work until the test lets it go. It looks at
// no context by itself: whoever ignores that it has ended is waited for.
type desk struct {
	arrivals chan *work
	closing  chan struct{} // a test that failed lets nobody go
}

// work is one call of the handler.
type work struct {
	w    http.ResponseWriter
	r    *http.Request
	done chan func()
}

func newDesk(t *testing.T) desk {
	d := desk{make(chan *work, 16), make(chan struct{})}
	t.Cleanup(func() { close(d.closing) })
	return d
}

func (d desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k := &work{w, r, make(chan func())}
	d.arrivals <- k
	select {
	case answer := <-k.done:
		answer()
	case <-d.closing:
	}
}

// next waits for the handler to be called, under the number it returns.
func (d desk) next(t *testing.T) (*work, int64) {
	t.Helper()
	select {
	case k := <-d.arrivals:
		tok, err := token.FromContext(k.r.Context(), "account/42")
		require.NoError(t, err)
		return k, tok.Number
	case <-time.After(30 * time.Second):
		require.Fail(t, "the handler was not called")
		return nil, 0
	}
}

// expect is next, for a number that is known.
func (d desk) expect(t *testing.T, number int64) *work {
	t.Helper()
	k, got := d.next(t)
	require.Equal(t, number, got)
	return k
}

func (d desk) idle(t *testing.T) {
	t.Helper()
	require.Empty(t, d.arrivals, "a handler was called")
}

// leave lets the handler answer 204.
func (k *work) leave() { k.finish(func() { k.w.WriteHeader(http.StatusNoContent) }) }

func (k *work) finish(f func()) { k.done <- f }

// dismissed waits until the handler's context has ended.
func (k *work) dismissed(t *testing.T) {
	t.Helper()
	select {
	case <-k.r.Context().Done():
	case <-time.After(30 * time.Second):
		require.Fail(t, "the context did not end")
	}
}

// office is a service with one desk behind a window.
type office struct {
	site
	desk
	mux    *http.ServeMux
	window *httpguard.Window
	marks  *guard.Memory
}

func open(t *testing.T, two bool, change ...func(*httpguard.Middleware)) office {
	t.Helper()
	return openWith(t, two, 0, change...)
}

func openWith(t *testing.T, two bool, writeTimeout time.Duration, change ...func(*httpguard.Middleware)) office {
	t.Helper()
	o := office{mux: http.NewServeMux(), window: &httpguard.Window{}, marks: at(t)}
	m := httpguard.Middleware{Resources: accounts, Store: o.marks, Window: o.window, Wait: time.Minute}
	for _, f := range change {
		f(&m)
	}
	o.site = serveWith(t, o.mux, two, writeTimeout)
	t.Cleanup(func() { o.empty(t) })
	o.desk = newDesk(t)
	o.mux.Handle("/accounts/{id}", m.Wrap(o.desk))
	return o
}

// put sends a request of the number's holder; its reply comes later.
func (o office) put(number int64) <-chan reply {
	return o.putAs(number, "h"+strconv.FormatInt(number, 10))
}

func (o office) putAs(number int64, holder string) <-chan reply {
	return o.later(o.t.Context(), number, holder)
}

// puts is put by a client that leaves when ctx ends.
func (o office) puts(ctx context.Context, number int64) <-chan reply {
	return o.later(ctx, number, "h"+strconv.FormatInt(number, 10))
}

func (o office) later(ctx context.Context, number int64, holder string) <-chan reply {
	replies := make(chan reply, 1)
	go func() { replies <- o.attempt(ctx, number, holder) }()
	return replies
}

// attempt is a request that may end without an answer: its status is 0 then.
func (o office) attempt(ctx context.Context, number int64, holder string) reply {
	req, err := http.NewRequestWithContext(ctx, "PUT", o.URL+"/accounts/42", nil)
	if err != nil {
		return reply{}
	}
	req.Header.Set(httpguard.Header, line("account/42", number, holder))
	resp, err := o.Client().Do(req)
	if err != nil {
		return reply{}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return reply{}
	}
	return reply{status: resp.StatusCode, major: resp.ProtoMajor, header: resp.Header, body: string(body)}
}

// waiting waits until n requests wait in the window.
func (o office) waiting(t *testing.T, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return httpguard.Waiting(o.window) == n }, 30*time.Second, time.Millisecond)
}

// empty waits until nothing is left in the window.
func (o office) empty(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return httpguard.Entries(o.window) == 0 }, 30*time.Second, time.Millisecond)
}

// answered reads one answer off conn.
func answered(t *testing.T, conn net.Conn, status int) {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, status, resp.StatusCode)
}
