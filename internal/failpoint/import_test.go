package failpoint_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/internal/test/hooktest"
)

func TestExportAndImport(t *testing.T) {
	t.Parallel()
	t.Run("an id carries the listener and the unguarded mode", func(t *testing.T) {
		t.Parallel()
		var h hooktest.Record
		id := failpoint.Export(failpoint.Unguarded(h.Listen(t.Context())))
		require.GreaterOrEqual(t, len(id), 26, "128 bits")
		ctx, known := failpoint.Import(context.Background(), id)
		require.True(t, known)
		failpoint.At(ctx, failpoint.Begin, nil)
		require.Len(t, h.Steps, 1)
		require.True(t, failpoint.IsUnguarded(ctx))
	})
	t.Run("each context has one id of its own", func(t *testing.T) {
		t.Parallel()
		var h hooktest.Record
		ctx := h.Listen(t.Context())
		require.Equal(t, failpoint.Export(ctx), failpoint.Export(context.WithoutCancel(ctx)))
		require.NotEqual(t, failpoint.Export(ctx), failpoint.Export(failpoint.Unguarded(ctx)))
		imported, known := failpoint.Import(t.Context(), failpoint.Export(ctx))
		require.True(t, known)
		require.False(t, failpoint.IsUnguarded(imported))
	})
	t.Run("outside of a simulation there is nothing to export", func(t *testing.T) {
		t.Parallel()
		require.Empty(t, failpoint.Export(t.Context()))
		for _, id := range []string{"", "made up"} {
			ctx, known := failpoint.Import(t.Context(), id)
			require.False(t, known)
			require.Equal(t, t.Context(), ctx)
		}
	})
	t.Run("an id ends with its context", func(t *testing.T) {
		t.Parallel()
		id := func() string { return failpoint.Export(failpoint.Unguarded(context.Background())) }()
		for deadline := time.Now().Add(2 * time.Minute); failpoint.Exported(id); time.Sleep(time.Millisecond) {
			require.True(t, time.Now().Before(deadline), "the id leaks")
			runtime.GC()
		}
		_, known := failpoint.Import(t.Context(), id)
		require.False(t, known)
	})
	t.Run("an id is valid as long as an imported context lives", func(t *testing.T) {
		t.Parallel()
		id := failpoint.Export(failpoint.Unguarded(context.Background()))
		ctx, _ := failpoint.Import(context.Background(), id)
		runtime.GC()
		_, known := failpoint.Import(context.Background(), id)
		require.True(t, known)
		runtime.KeepAlive(ctx)
	})
}
