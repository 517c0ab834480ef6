package point_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/point"
)

func TestCarry(t *testing.T) {
	t.Parallel()
	t.Run("an id brings the listener and the observing along", func(t *testing.T) {
		t.Parallel()
		var h heard
		id := point.Export(point.Observe(h.listen(t.Context())))
		require.GreaterOrEqual(t, len(id), 26, "128 bits")
		ctx, known := point.Import(context.Background(), id)
		require.True(t, known)
		point.At(ctx, point.Begin, nil)
		require.Len(t, h.steps, 1)
		require.True(t, point.Observing(ctx))
	})
	t.Run("one context has one id, another has another", func(t *testing.T) {
		t.Parallel()
		var h heard
		ctx := h.listen(t.Context())
		require.Equal(t, point.Export(ctx), point.Export(context.WithoutCancel(ctx)))
		require.NotEqual(t, point.Export(ctx), point.Export(point.Observe(ctx)))
		imported, known := point.Import(t.Context(), point.Export(ctx))
		require.True(t, known)
		require.False(t, point.Observing(imported))
	})
	t.Run("outside of a simulation there is nothing to carry", func(t *testing.T) {
		t.Parallel()
		require.Empty(t, point.Export(t.Context()))
		for _, id := range []string{"", "made up"} {
			ctx, known := point.Import(t.Context(), id)
			require.False(t, known)
			require.Equal(t, t.Context(), ctx)
		}
	})
	t.Run("an id is forgotten with its context", func(t *testing.T) {
		t.Parallel()
		id := func() string { return point.Export(point.Observe(context.Background())) }()
		for deadline := time.Now().Add(30 * time.Second); point.Exported(id); time.Sleep(time.Millisecond) {
			require.True(t, time.Now().Before(deadline), "it leaks")
			runtime.GC()
		}
		_, known := point.Import(t.Context(), id)
		require.False(t, known)
	})
	t.Run("an id lives as long as a context that was imported", func(t *testing.T) {
		t.Parallel()
		id := point.Export(point.Observe(context.Background()))
		ctx, _ := point.Import(context.Background(), id)
		runtime.GC()
		_, known := point.Import(context.Background(), id)
		require.True(t, known)
		runtime.KeepAlive(ctx)
	})
}
