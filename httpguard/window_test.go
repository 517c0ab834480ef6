package httpguard_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
)

// everyWindow runs test over HTTP/1.1 and over HTTP/2.
func everyWindow(t *testing.T, test func(t *testing.T, o office), change ...func(*httpguard.Middleware)) {
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
	t.Run("without the window the older handler writes last", func(t *testing.T) {
		t.Parallel()
		o := open(t, false, func(m *httpguard.Middleware) { m.DangerouslyWithoutWindow = true })
		older := o.put(34)
		paused := o.expect(t, 34)
		newer := o.put(35)
		o.expect(t, 35).leave()
		require.Equal(t, http.StatusNoContent, (<-newer).status)
		require.NoError(t, paused.r.Context().Err())
		paused.leave() // here it would write
		require.Equal(t, http.StatusNoContent, (<-older).status)
	})
	t.Run("with it the newer one comes in when the older one has left", func(t *testing.T) {
		t.Parallel()
		everyWindow(t, func(t *testing.T, o office) {
			older := o.put(34)
			paused := o.expect(t, 34)
			newer := o.put(35)
			paused.dismissed(t)
			o.waiting(t, 1)
			o.idle(t)
			require.EqualValues(t, 34, o.marks.Mark("account/42").Number, "the window is entered before the store is asked")
			ctx := paused.r.Context()
			require.ErrorIs(t, ctx.Err(), context.Canceled)
			var dismissed *guard.DismissedError
			require.ErrorAs(t, context.Cause(ctx), &dismissed)
			require.ErrorIs(t, dismissed, guard.ErrStale)
			require.EqualValues(t, 34, dismissed.Token.Number)
			paused.finish(func() { httpguard.Error(paused.w, paused.r, guard.WithLoss(ctx, ctx.Err())) })
			require.Equal(t, httpguard.ProblemStale, (<-older).problem(t)["type"])
			o.expect(t, 35).leave()
			require.Equal(t, http.StatusNoContent, (<-newer).status)
		})
	})
}

func TestAnOlderTokenIsStaleWhileANewerOneIsThere(t *testing.T) {
	t.Parallel()
	everyWindow(t, func(t *testing.T, o office) {
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
	}, func(m *httpguard.Middleware) { m.Store = nil }) // the window decides alone
}

func TestAStillNewerTokenOvertakesTheOneThatWaits(t *testing.T) {
	t.Parallel()
	// hazard W12
	everyWindow(t, func(t *testing.T, o office) {
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
	everyWindow(t, func(t *testing.T, o office) {
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
	everyWindow(t, func(t *testing.T, o office) {
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
	everyWindow(t, func(t *testing.T, o office) {
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
	everyWindow(t, func(t *testing.T, o office) {
		older := o.put(34)
		stubborn := o.expect(t, 34)
		held := <-o.put(35)
		require.Equal(t, http.StatusServiceUnavailable, held.status)
		require.Equal(t, httpguard.ProblemUnavailable, held.problem(t)["type"])
		require.Equal(t, "1", held.header.Get("Retry-After"))
		require.EqualValues(t, 34, o.marks.Mark("account/42").Number)
		stubborn.leave()
		<-older // over HTTP/2 its stream was reset, since it had time enough
		again := o.put(35)
		o.expect(t, 35).leave()
		require.Equal(t, http.StatusNoContent, (<-again).status)
	}, func(m *httpguard.Middleware) { m.Wait = 50 * time.Millisecond })
}
