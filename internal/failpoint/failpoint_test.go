package failpoint_test

import (
	"context"
	"testing"

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
