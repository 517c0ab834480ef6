package httpguard_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/token"
)

// unguarded is a resource without a guard: it records the writes in order. The handler
// stops before the write of 33 until the test resumes it.
type unguarded struct {
	writes  chan int64
	stopped chan context.Context
	resume  chan struct{}
	release func()
}

func newUnguarded() unguarded {
	resume := make(chan struct{})
	return unguarded{make(chan int64, 2), make(chan context.Context, 1), resume, sync.OnceFunc(func() { close(resume) })}
}

func (a unguarded) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	tok, _ := token.FromContext(r.Context(), "account/42")
	if tok.Number == 33 {
		a.stop(r.Context())
	}
	a.writes <- tok.Number
}

func (a unguarded) stop(ctx context.Context) {
	a.stopped <- ctx
	<-a.resume
}

// dismissed waits until the older request's context has ended: by then the newer one has
// entered InFlight.
func (a unguarded) dismissed(t *testing.T, ctx context.Context) {
	t.Helper()
	t.Cleanup(a.release) // otherwise the server waits for its handler forever
	select {
	case <-ctx.Done():
	case <-time.After(time.Minute):
		require.Fail(t, "the older request was not cancelled")
	}
	require.ErrorIs(t, context.Cause(ctx), guard.ErrStale)
}

// older and newer send a request each; the replies come later.
func (s site) older() <-chan int { return s.later(line("account/42", 33, "older")) }
func (s site) newer() <-chan int { return s.later(line("account/42", 34, "newer")) }

func (s site) later(field string) <-chan int {
	status := make(chan int, 1)
	go func() { status <- s.do("PUT", "/accounts/42", field).status }()
	return status
}

func mount(m httpguard.Middleware, next http.Handler) http.Handler {
	m.Resources = accounts
	mux := http.NewServeMux()
	mux.Handle("PUT /accounts/{id}", m.Wrap(next))
	return mux
}

func TestAnOlderHandlerStopsBeforeItsWrite(t *testing.T) {
	t.Parallel()
	// hazard W1
	t.Run("without InFlight its write lands after the newer one", func(t *testing.T) {
		t.Parallel()
		a := newUnguarded()
		s := serve(t, mount(httpguard.Middleware{Store: &guard.Memory{}, DangerouslySkipInFlight: true}, a), false)
		older := s.older()
		<-a.stopped
		require.Equal(t, http.StatusOK, <-s.newer())
		a.release()
		require.Equal(t, http.StatusOK, <-older, "and is acknowledged")
		require.Equal(t, []int64{34, 33}, []int64{<-a.writes, <-a.writes})
	})
	t.Run("with it the newer one waits, whatever the handler does", func(t *testing.T) {
		t.Parallel()
		a := newUnguarded()
		s := serve(t, mount(httpguard.Middleware{Store: &guard.Memory{}, InFlight: new(httpguard.InFlight), WaitTimeout: time.Minute}, a), false)
		older := s.older()
		ctx := <-a.stopped
		newer := s.newer()
		a.dismissed(t, ctx)
		require.Empty(t, a.writes)
		a.release()
		<-older
		require.Equal(t, http.StatusOK, <-newer)
		require.Equal(t, []int64{33, 34}, []int64{<-a.writes, <-a.writes})
	})
}

// stops is a store that stops after it has admitted 33.
func (a unguarded) stops() guard.Store {
	var marks guard.Memory
	return storeFunc(func(ctx context.Context, tok token.Token) error {
		err := marks.Admit(ctx, tok)
		if tok.Number == 33 {
			a.stop(ctx)
		}
		return err
	})
}

func TestTheStoreIsCalledInsideInFlight(t *testing.T) {
	t.Parallel()
	// hazard W12
	write := func(a unguarded) http.Handler {
		return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			tok, _ := token.FromContext(r.Context(), "account/42")
			a.writes <- tok.Number
		})
	}
	t.Run("called before, it admits a request that enters too late", func(t *testing.T) {
		t.Parallel()
		a := newUnguarded()
		store := a.stops()
		// The naive middleware calls the store before it enters InFlight: the inner
		// one has an InFlight and no store.
		inner := mount(httpguard.Middleware{InFlight: new(httpguard.InFlight), WaitTimeout: time.Minute}, write(a))
		s := serve(t, mount(httpguard.Middleware{Store: store, DangerouslySkipInFlight: true}, inner), false)
		older := s.older()
		<-a.stopped // 1. 33 is admitted, and has not entered
		require.Equal(t, http.StatusOK, <-s.newer(), "2. 34 is admitted, enters, writes and leaves")
		a.release()
		require.Equal(t, http.StatusOK, <-older, "3. 33 enters an empty InFlight")
		require.Equal(t, []int64{34, 33}, []int64{<-a.writes, <-a.writes})
	})
	t.Run("called inside, no request overtakes it", func(t *testing.T) {
		t.Parallel()
		a := newUnguarded()
		s := serve(t, mount(httpguard.Middleware{Store: a.stops(), InFlight: new(httpguard.InFlight), WaitTimeout: time.Minute}, write(a)), false)
		older := s.older()
		ctx := <-a.stopped
		newer := s.newer()
		a.dismissed(t, ctx)
		a.release()
		require.Equal(t, http.StatusPreconditionFailed, <-older, "admitted, and refused since a newer one has come")
		require.Equal(t, http.StatusOK, <-newer)
		require.Equal(t, int64(34), <-a.writes)
		require.Empty(t, a.writes)
	})
}
