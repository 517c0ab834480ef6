package httpguard_test

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
)

// overBothVersions runs test over HTTP/1.1 and over HTTP/2.
func overBothVersions(t *testing.T, test func(t *testing.T, o blockingSite), change ...func(*httpguard.Middleware)) {
	t.Helper()
	for name, two := range map[string]bool{"over HTTP/1.1": false, "over HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t, two, change...))
		})
	}
}

func TestANewerTokenWaitsForTheOlder(t *testing.T) {
	t.Parallel()
	// hazard W1
	t.Run("without InFlight the older handler writes last", func(t *testing.T) {
		t.Parallel()
		o := open(t, false, func(m *httpguard.Middleware) { m.DangerouslySkipInFlight = true })
		older := o.put(34)
		paused := o.expect(t, 34)
		newer := o.put(35)
		o.expect(t, 35).leave()
		require.Equal(t, http.StatusNoContent, (<-newer).status)
		require.NoError(t, paused.r.Context().Err())
		paused.leave() // here it would write
		require.Equal(t, http.StatusNoContent, (<-older).status)
	})
	t.Run("with it the newer one runs after the older one has returned", func(t *testing.T) {
		t.Parallel()
		overBothVersions(t, func(t *testing.T, o blockingSite) {
			older := o.put(34)
			paused := o.expect(t, 34)
			newer := o.put(35)
			paused.dismissed(t)
			o.waiting(t, 1)
			o.idle(t)
			require.EqualValues(t, 34, o.marks.Mark("account/42").Number, "the request enters InFlight before the store is called")
			ctx := paused.r.Context()
			require.ErrorIs(t, ctx.Err(), context.Canceled)
			var dismissed *guard.DismissedError
			require.ErrorAs(t, context.Cause(ctx), &dismissed)
			require.ErrorIs(t, dismissed, guard.ErrStale)
			require.EqualValues(t, 34, dismissed.Token.Number)
			paused.finish(func() { httpguard.Error(paused.w, paused.r, guard.WithCause(ctx, ctx.Err())) })
			require.Equal(t, httpguard.ProblemStale, (<-older).problem(t)["type"])
			o.expect(t, 35).leave()
			require.Equal(t, http.StatusNoContent, (<-newer).status)
		})
	})
}

func TestAnOlderTokenIsStaleWhileANewerOneIsThere(t *testing.T) {
	t.Parallel()
	overBothVersions(t, func(t *testing.T, o blockingSite) {
		older := o.put(34)
		paused := o.expect(t, 34)
		newer := o.put(35)
		o.waiting(t, 1)
		require.Equal(t, httpguard.ProblemStale, (<-o.put(34)).problem(t)["type"], "while the newer one waits")
		paused.leave()
		require.Equal(t, http.StatusNoContent, (<-older).status)
		working := o.expect(t, 35)
		require.Equal(t, httpguard.ProblemStale, (<-o.put(34)).problem(t)["type"], "while it works")
		working.leave()
		require.Equal(t, http.StatusNoContent, (<-newer).status)
	}, func(m *httpguard.Middleware) { m.Store = nil }) // InFlight decides alone
}

func TestAStillNewerTokenOvertakesTheOneThatWaits(t *testing.T) {
	t.Parallel()
	// hazard W12
	overBothVersions(t, func(t *testing.T, o blockingSite) {
		first := o.put(34)
		paused := o.expect(t, 34)
		second := o.put(35)
		o.waiting(t, 1)
		third := o.put(36)
		require.Equal(t, httpguard.ProblemStale, (<-second).problem(t)["type"])
		paused.leave()
		require.Equal(t, http.StatusNoContent, (<-first).status)
		o.expect(t, 36).leave()
		require.Equal(t, http.StatusNoContent, (<-third).status)
	})
}

func TestRequestsUnderOneTokenRunInParallel(t *testing.T) {
	t.Parallel()
	overBothVersions(t, func(t *testing.T, o blockingSite) {
		one, two := o.put(34), o.put(34)
		first, second := o.expect(t, 34), o.expect(t, 34)
		newer := o.put(35)
		first.dismissed(t)
		second.dismissed(t)
		first.leave()
		o.waiting(t, 1)
		o.idle(t)
		second.leave()
		o.expect(t, 35).leave()
		for _, replies := range []<-chan reply{one, two, newer} {
			require.Equal(t, http.StatusNoContent, (<-replies).status)
		}
	})
}

func TestAHandlerCallsItsOwnService(t *testing.T) {
	t.Parallel()
	overBothVersions(t, func(t *testing.T, o blockingSite) {
		outer := o.put(34)
		working := o.expect(t, 34)
		inner := o.put(34)
		o.expect(t, 34).leave()
		require.Equal(t, http.StatusNoContent, (<-inner).status, "under its own token")

		newer := o.put(35)
		o.waiting(t, 1)
		require.Equal(t, http.StatusPreconditionFailed, (<-o.put(34)).status, "no deadlock while a newer one waits")
		working.leave()
		require.Equal(t, http.StatusNoContent, (<-outer).status)
		o.expect(t, 35).leave()
		require.Equal(t, http.StatusNoContent, (<-newer).status)
	})
}

func TestHoldersOfOneNumberTakeTurns(t *testing.T) {
	t.Parallel()
	overBothVersions(t, func(t *testing.T, o blockingSite) {
		one := o.putAs(34, "a")
		working := o.expect(t, 34)
		two := o.putAs(34, "b")
		o.waiting(t, 1)
		require.NoError(t, working.r.Context().Err(), "it is not older")
		working.leave()
		require.Equal(t, http.StatusNoContent, (<-one).status)
		require.Equal(t, httpguard.ProblemStale, (<-two).problem(t)["type"], "the store has decided")
	})
}

func TestWaitingIsBounded(t *testing.T) {
	t.Parallel()
	overBothVersions(t, func(t *testing.T, o blockingSite) {
		older := o.put(34)
		stubborn := o.expect(t, 34)
		held := <-o.put(35)
		require.Equal(t, http.StatusServiceUnavailable, held.status)
		require.Equal(t, httpguard.ProblemUnavailable, held.problem(t)["type"])
		require.Equal(t, "1", held.header.Get("Retry-After"))
		require.EqualValues(t, 34, o.marks.Mark("account/42").Number)
		stubborn.leave()
		<-older // over HTTP/2 its stream was reset, since it had time enough
		o.empty(t)
		again := o.put(35)
		o.expect(t, 35).leave()
		require.Equal(t, http.StatusNoContent, (<-again).status)
	}, func(m *httpguard.Middleware) { m.WaitTimeout = 50 * time.Millisecond })
}

// Two requests name the same two resources in opposite orders. If they entered the queues
// in these orders, each would wait for the other until the timeout.
func TestTwoResourcesInTwoOrders(t *testing.T) {
	t.Parallel()
	var served atomic.Int64
	count := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1) })
	inFlight := &httpguard.InFlight{}
	m := httpguard.Middleware{Store: &guard.Memory{}, InFlight: inFlight, WaitTimeout: time.Minute}
	mux := http.NewServeMux()
	for path, order := range map[string]func(*http.Request) ([]string, error){
		"PUT /there": func(*http.Request) ([]string, error) { return []string{"a", "b", "a"}, nil },
		"PUT /back":  func(*http.Request) ([]string, error) { return []string{"b", "a"}, nil },
	} {
		m.Resources = order
		mux.Handle(path, m.Wrap(count))
	}
	s := serve(t, mux, false)
	var clients sync.WaitGroup
	for _, path := range []string{"/there", "/back"} {
		for range 4 {
			clients.Go(func() {
				for n := range int64(25) {
					status := s.try(path, line("a", n+1, "h"), line("b", n+1, "h"))
					if status != http.StatusOK && status != http.StatusPreconditionFailed {
						t.Errorf("%s was answered %d", path, status)
					}
				}
			})
		}
	}
	clients.Wait()
	require.Positive(t, served.Load())
	require.Zero(t, httpguard.Queues(inFlight))
}
