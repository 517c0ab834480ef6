package point_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/point"
)

// heard is what a listener was told.
type heard struct {
	steps []point.Step
	keys  []any
}

func (h *heard) listen(ctx context.Context) context.Context {
	return point.Listen(ctx, func(_ context.Context, step point.Step, key any) {
		h.steps = append(h.steps, step)
		h.keys = append(h.keys, key)
	})
}

func TestAt(t *testing.T) {
	t.Parallel()
	t.Run("a step is told to the listener of its context, with the key", func(t *testing.T) {
		t.Parallel()
		var mine, other heard
		ctx := mine.listen(t.Context())
		_ = other.listen(t.Context())
		point.At(ctx, point.Begin, "a")
		point.At(context.WithoutCancel(ctx), point.Applied, "a")
		point.At(t.Context(), point.Commit, "a")
		require.Equal(t, heard{[]point.Step{point.Begin, point.Applied}, []any{"a", "a"}}, mine)
		require.Empty(t, other.steps)
	})
	t.Run("the latest listener hears alone", func(t *testing.T) {
		t.Parallel()
		var outer, inner heard
		point.At(inner.listen(outer.listen(t.Context())), point.Begin, nil)
		require.Len(t, inner.steps, 1)
		require.Empty(t, outer.steps)
	})
	t.Run("who observes is still heard, and who is heard still observes", func(t *testing.T) {
		t.Parallel()
		var h heard
		for _, ctx := range []context.Context{point.Observe(h.listen(t.Context())), h.listen(point.Observe(t.Context()))} {
			point.At(ctx, point.Begin, nil)
			require.True(t, point.Observing(ctx))
			require.True(t, point.Listening(ctx))
		}
		require.Len(t, h.steps, 2)
		require.False(t, point.Listening(point.Observe(t.Context())))
		require.False(t, point.Observing(h.listen(t.Context())))
		require.False(t, point.Observing(t.Context()))
	})
}

func TestWithin(t *testing.T) {
	t.Parallel()
	var h heard
	ctx := h.listen(t.Context())
	require.Equal(t, "a", point.Key(point.Within(ctx, "a")))
	require.Nil(t, point.Key(ctx))
	require.Equal(t, t.Context(), point.Within(t.Context(), "a"), "nobody listens")
}
