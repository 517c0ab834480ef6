package failpoint_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/failpoint"
)

type account struct{ _ string }

func TestNoListenerCostsNothing(t *testing.T) {
	ctx, key := context.WithValue(t.Context(), account{}, 1), &account{}
	for name, call := range map[string]func(){
		"At":          func() { failpoint.At(ctx, failpoint.Begin, key) },
		"WithKey":     func() { _ = failpoint.WithKey(ctx, key) },
		"IsUnguarded": func() { _ = failpoint.IsUnguarded(ctx) },
	} {
		require.Zero(t, testing.AllocsPerRun(100, call), name)
	}
}

// Before the first simulation of a process, a step costs a load and a branch. After it,
// contexts that are part of no simulation are searched too.
func BenchmarkAt(b *testing.B) {
	ctx, key := context.WithValue(b.Context(), account{}, 1), &account{}
	at := func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			failpoint.At(ctx, failpoint.Begin, key)
		}
	}
	b.Run("before any simulation", at)
	failpoint.Unguarded(ctx)
	b.Run("after a simulation", at)
}
