package failpoint_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/internal/test/hooktest"
)

func TestAt(t *testing.T) {
	t.Parallel()
	t.Run("the listener of its context receives a step, with the key", func(t *testing.T) {
		t.Parallel()
		var mine, other hooktest.Record
		ctx := mine.Listen(t.Context())
		_ = other.Listen(t.Context())
		failpoint.At(ctx, failpoint.Begin, "a")
		failpoint.At(context.WithoutCancel(ctx), failpoint.Applied, "a")
		failpoint.At(t.Context(), failpoint.Commit, "a")
		require.Equal(t, []failpoint.Step{failpoint.Begin, failpoint.Applied}, mine.Steps)
		require.Equal(t, []any{"a", "a"}, mine.Keys)
		require.Empty(t, other.Steps)
	})
	t.Run("only the latest listener receives a step", func(t *testing.T) {
		t.Parallel()
		var outer, inner hooktest.Record
		failpoint.At(inner.Listen(outer.Listen(t.Context())), failpoint.Begin, nil)
		require.Len(t, inner.Steps, 1)
		require.Empty(t, outer.Steps)
	})
	t.Run("a context can be unguarded and have a listener, in either order", func(t *testing.T) {
		t.Parallel()
		var h hooktest.Record
		for _, ctx := range []context.Context{failpoint.Unguarded(h.Listen(t.Context())), h.Listen(failpoint.Unguarded(t.Context()))} {
			failpoint.At(ctx, failpoint.Begin, nil)
			require.True(t, failpoint.IsUnguarded(ctx))
			require.True(t, failpoint.Listening(ctx))
		}
		require.Len(t, h.Steps, 2)
		require.False(t, failpoint.Listening(failpoint.Unguarded(t.Context())))
		require.False(t, failpoint.IsUnguarded(h.Listen(t.Context())))
		require.False(t, failpoint.IsUnguarded(t.Context()))
	})
}

func TestWithKey(t *testing.T) {
	t.Parallel()
	var h hooktest.Record
	ctx := h.Listen(t.Context())
	require.Equal(t, "a", failpoint.Key(failpoint.WithKey(ctx, "a")))
	require.Nil(t, failpoint.Key(ctx))
	require.Equal(t, t.Context(), failpoint.WithKey(t.Context(), "a"), "no listener")
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
