package httpguard_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/token"
)

// blocking is a handler that blocks until the test releases it. It ignores its context: a
// newer request waits for it.
type blocking struct {
	arrivals chan *work
	closing  chan struct{} // closed at the end: a failed test does not release handlers
}

// work is one call of the handler.
type work struct {
	w    http.ResponseWriter
	r    *http.Request
	done chan func()
}

func newBlocking(t *testing.T) blocking {
	d := blocking{make(chan *work, 16), make(chan struct{})}
	t.Cleanup(func() { close(d.closing) })
	return d
}

func (d blocking) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k := &work{w, r, make(chan func())}
	d.arrivals <- k
	select {
	case answer := <-k.done:
		answer()
	case <-d.closing:
	}
}

// next waits for the handler to be called, under the number it returns.
func (d blocking) next(t *testing.T) (*work, int64) {
	t.Helper()
	select {
	case k := <-d.arrivals:
		tok, err := token.FromContext(k.r.Context(), "account/42")
		require.NoError(t, err)
		return k, tok.Number
	case <-time.After(time.Minute):
		require.Fail(t, "the handler was not called")
		return nil, 0
	}
}

// expect is next, for a number that is known.
func (d blocking) expect(t *testing.T, number int64) *work {
	t.Helper()
	k, got := d.next(t)
	require.Equal(t, number, got)
	return k
}

// leave makes the handler respond 204.
func (k *work) leave() { k.finish(func() { k.w.WriteHeader(http.StatusNoContent) }) }

func (k *work) finish(f func()) { k.done <- f }

// dismissed waits until the handler's context has ended.
func (k *work) dismissed(t *testing.T) {
	t.Helper()
	select {
	case <-k.r.Context().Done():
	case <-time.After(time.Minute):
		require.Fail(t, "the context did not end")
	}
}

// blockingSite is a service with one blocking handler behind an InFlight.
type blockingSite struct {
	site
	blocking
	mux      *http.ServeMux
	inFlight *httpguard.InFlight
	marks    *guard.Memory
}

func open(t *testing.T, two bool, change ...func(*httpguard.Middleware)) blockingSite {
	t.Helper()
	return openWith(t, two, 0, change...)
}

func openWith(t *testing.T, two bool, writeTimeout time.Duration, change ...func(*httpguard.Middleware)) blockingSite {
	t.Helper()
	o := blockingSite{mux: http.NewServeMux(), inFlight: &httpguard.InFlight{}, marks: at(t)}
	m := httpguard.Middleware{Resources: accounts, Store: o.marks, InFlight: o.inFlight, WaitTimeout: time.Minute}
	for _, f := range change {
		f(&m)
	}
	o.site = serveWith(t, o.mux, two, writeTimeout)
	t.Cleanup(func() { o.empty(t) })
	o.blocking = newBlocking(t)
	o.mux.Handle("/accounts/{id}", m.Wrap(o.blocking))
	return o
}

// put sends a request of the number's holder; its reply comes later.
func (o blockingSite) put(number int64) <-chan reply {
	return o.later(o.t.Context(), number, "h", "")
}

// later sends a request of a client that leaves when ctx ends. The reply's status is 0 if
// there is no response.
func (o blockingSite) later(ctx context.Context, number int64, holder, name string) <-chan reply {
	req := o.request(ctx, "PUT", "/accounts/42", nil, line("account/42", number, holder))
	req.Header.Set("X-Name", name)
	replies := make(chan reply, 1)
	go func() {
		resp, err := o.Client().Do(req)
		if err != nil {
			replies <- reply{}
			return
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			replies <- reply{}
			return
		}
		replies <- reply{status: resp.StatusCode, major: resp.ProtoMajor, header: resp.Header, body: string(body)}
	}()
	return replies
}

// waiting waits until n requests wait in InFlight.
func (o blockingSite) waiting(t *testing.T, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return httpguard.Waiting(o.inFlight) == n }, time.Minute, time.Millisecond)
}

// empty waits until nothing is left in InFlight.
func (o blockingSite) empty(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return httpguard.Queues(o.inFlight) == 0 }, time.Minute, time.Millisecond)
}

// answered reads one response from conn.
func answered(t *testing.T, conn net.Conn, status int) {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, status, resp.StatusCode)
}
