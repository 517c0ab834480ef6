package failpoint_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/internal/test/hooktest"
)

const lock = "account/42"

// enter returns the context of a Hold of lock, and the function that ends the Hold.
func enter(ctx context.Context) (inner context.Context, leave func()) {
	return failpoint.EnterHold(ctx, lock)
}

func TestCodeThatUsesTheTokenFirstGetsTheOuterToken(t *testing.T) {
	t.Parallel()
	ctx := failpoint.WithOuterToken(t.Context(), lock, 33)
	require.False(t, failpoint.HidesToken(ctx, lock, 33))
	for range 2 { // inside a Hold and after it too
		inner, leave := enter(ctx)
		require.Equal(t, ctx, inner)
		require.False(t, failpoint.HidesToken(inner, lock, 33))
		require.False(t, failpoint.HidesToken(ctx, lock, 33))
		leave()
		require.False(t, failpoint.HidesToken(ctx, lock, 33))
		require.False(t, failpoint.Reacquires(ctx, lock), "a re-entry")
	}
}

func TestCodeThatHoldsFirstSeesTheTokenInsideItsHoldOnly(t *testing.T) {
	t.Parallel()
	var h hooktest.Record
	ctx := h.Listen(failpoint.WithOuterToken(t.Context(), lock, 33))
	require.False(t, failpoint.Reacquires(ctx, lock), "the first Hold uses the outer lease")
	inner, leave := enter(ctx)
	require.False(t, failpoint.HidesToken(inner, lock, 33))
	require.True(t, failpoint.HidesToken(ctx, lock, 33), "in production ctx has no token")
	require.False(t, failpoint.Reacquires(inner, lock), "a nested Hold")
	nested, leaveNested := enter(inner)
	require.False(t, failpoint.HidesToken(nested, lock, 33))
	leaveNested()
	require.True(t, failpoint.HidesToken(ctx, lock, 33))
	require.False(t, failpoint.Reacquires(ctx, lock), "in production a second Hold waits for the first; here it is a nested Hold")
	leave()
	require.True(t, failpoint.HidesToken(ctx, lock, 33), "the Hold has ended")
	require.Empty(t, h.Notes)
	for range 3 {
		require.True(t, failpoint.Reacquires(ctx, lock))
		require.Equal(t, []any{failpoint.Reacquired{Resource: lock}}, h.Notes, "the lock is released once")
		require.True(t, failpoint.HidesToken(ctx, lock, 33))
	}
}

// A look at the token decides nothing: a Hold that follows is the code's own.
func TestALookAtTheOuterTokenIsNoUse(t *testing.T) {
	t.Parallel()
	var h hooktest.Record
	ctx := h.Listen(failpoint.WithOuterToken(t.Context(), lock, 33))
	use := func() failpoint.TokenUse { return failpoint.OuterTokenUse(ctx, lock) }
	require.False(t, failpoint.HidesTokenNow(ctx, lock, 33))
	require.Equal(t, failpoint.TokenUndecided, use())
	_, leave := enter(ctx)
	require.Equal(t, failpoint.TokenUsed, use(), "inside the Hold")
	require.True(t, failpoint.HidesTokenNow(ctx, lock, 33))
	require.False(t, failpoint.HidesTokenNow(ctx, lock, 34), "a token of the program's own")
	leave()
	require.Equal(t, failpoint.TokenHidden, use())
	require.True(t, failpoint.HidesToken(ctx, lock, 33))
	require.Empty(t, h.Notes)

	require.Equal(t, failpoint.TokenUsed, failpoint.OuterTokenUse(t.Context(), lock), "no outer token")
	require.Equal(t, failpoint.TokenUsed, failpoint.OuterTokenUse(ctx, "account/7"))
	require.False(t, failpoint.HidesTokenNow(t.Context(), lock, 33))
}

func TestAHoldAfterAUseOfTheOuterTokenIsNoted(t *testing.T) {
	t.Parallel()
	var h hooktest.Record
	ctx := h.Listen(failpoint.WithOuterToken(t.Context(), lock, 33))
	require.False(t, failpoint.HidesToken(ctx, lock, 33))
	require.Equal(t, failpoint.TokenUsed, failpoint.OuterTokenUse(ctx, lock))
	require.Empty(t, h.Notes)
	_, leave := enter(ctx)
	leave()
	require.Equal(t, []any{failpoint.UsedFirst{Resource: lock}}, h.Notes)
	require.False(t, failpoint.HidesTokenNow(ctx, lock, 33))
}

// Holds of one outer token that overlap count as one: the lock is released when the last
// of them ends.
func TestParallelHoldsAreOneUntilTheLastEnds(t *testing.T) {
	t.Parallel()
	var h hooktest.Record
	ctx := h.Listen(failpoint.WithOuterToken(t.Context(), lock, 33))
	var leaves []func()
	for range 3 {
		require.False(t, failpoint.Reacquires(ctx, lock))
		inner, leave := enter(ctx)
		require.False(t, failpoint.HidesToken(inner, lock, 33))
		leaves = append(leaves, leave)
	}
	for _, leave := range leaves {
		require.False(t, failpoint.Reacquires(ctx, lock))
		leave()
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if !failpoint.Reacquires(ctx, lock) {
				t.Error("a nested Hold after the last has ended")
			}
		})
	}
	wg.Wait()
	require.Len(t, h.Notes, 1)
}

func TestAnOuterTokenHasOneResourceAndOneToken(t *testing.T) {
	t.Parallel()
	ctx := failpoint.WithOuterToken(t.Context(), lock, 33)
	require.False(t, failpoint.HidesToken(ctx, "account/7", 33))
	other, leave := failpoint.EnterHold(ctx, "account/7")
	require.Equal(t, ctx, other)
	leave()
	require.False(t, failpoint.Reacquires(ctx, "account/7"))

	require.False(t, failpoint.HidesToken(ctx, lock, 34), "a token of the program's own")
	inner, leave := enter(ctx)
	leave()
	require.True(t, failpoint.HidesToken(ctx, lock, 33), "the other token did not use it")
	require.False(t, failpoint.HidesToken(ctx, lock, 34))
	require.False(t, failpoint.HidesToken(inner, lock, 33), "a context that outlives its Hold: the lease refuses it")

	none, leave := enter(t.Context())
	leave()
	require.Equal(t, t.Context(), none)
	require.False(t, failpoint.HidesToken(t.Context(), lock, 33))
	require.False(t, failpoint.Reacquires(t.Context(), lock))
}

func TestAListenerReceivesFacts(t *testing.T) {
	t.Parallel()
	h, silent := hooktest.Record{DropReplies: true, IdleTimeout: time.Second}, t.Context()
	ctx := h.Listen(silent)
	facts := []any{failpoint.Sent{SQL: "SELECT 1"}, failpoint.RolledBack{Key: 1}, failpoint.Refused{Err: failpoint.ErrLost}, failpoint.Minted{Number: 3}}
	for _, fact := range facts {
		failpoint.Note(ctx, fact)
		failpoint.Note(silent, fact)
		failpoint.Note(failpoint.Unguarded(silent), fact)
	}
	require.Equal(t, facts, h.Notes)
	require.True(t, failpoint.DropsReply(ctx, "key"))
	require.False(t, failpoint.DropsReply(silent, "key"))
	require.False(t, failpoint.DropsReply(failpoint.Unguarded(silent), "key"))
	require.Equal(t, []any{"key"}, h.ReplyKeys)
}

func TestIdleTimeoutIsTheShorterOfTwo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ own, wanted, is time.Duration }{
		{0, 0, 0}, {0, 20, 20}, {10, 20, 10}, {20, 20, 20}, {30, 20, 20}, {30, 0, 30}, {-1, 20, -1}, {-1, 0, -1},
	} {
		h := hooktest.Record{IdleTimeout: c.wanted}
		require.Equal(t, c.is, failpoint.IdleTimeout(h.Listen(t.Context()), c.own), "%+v", c)
		require.Equal(t, c.own, failpoint.IdleTimeout(t.Context(), c.own))
	}
}

func TestIsClaim(t *testing.T) {
	t.Parallel()
	var h hooktest.Record
	ctx := h.Listen(t.Context())
	require.False(t, failpoint.IsClaim(ctx))
	require.True(t, failpoint.IsClaim(context.WithoutCancel(failpoint.Claim(ctx))))
	require.Equal(t, t.Context(), failpoint.Claim(t.Context()), "no listener")
}

// A Func drops no reply and sets no timeout.
func TestFuncReceivesStepsOnly(t *testing.T) {
	t.Parallel()
	var steps []failpoint.Step
	ctx := failpoint.Listen(t.Context(), failpoint.Func(func(_ context.Context, step failpoint.Step, _ any) { steps = append(steps, step) }))
	failpoint.Note(ctx, failpoint.Sent{})
	require.False(t, failpoint.DropsReply(ctx, "key"))
	require.Equal(t, time.Minute, failpoint.IdleTimeout(ctx, time.Minute))
	require.Zero(t, failpoint.IdleTimeout(ctx, 0))
	require.Empty(t, steps)
	failpoint.At(ctx, failpoint.Begin, "key")
	require.Equal(t, []failpoint.Step{failpoint.Begin}, steps)
}
