package point_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/point"
)

type account struct{ _ string }

func TestNobodyPaysWhoIsNotListenedTo(t *testing.T) {
	ctx, key := context.WithValue(t.Context(), account{}, 1), &account{}
	for name, call := range map[string]func(){
		"At":        func() { point.At(ctx, point.Begin, key) },
		"Within":    func() { _ = point.Within(ctx, key) },
		"Observing": func() { _ = point.Observing(ctx) },
	} {
		require.Zero(t, testing.AllocsPerRun(100, call), name)
	}
}

// In a process without a simulation a point is a load and a branch. After the
// first, the contexts that are part of none are searched.
func BenchmarkAt(b *testing.B) {
	ctx, key := context.WithValue(b.Context(), account{}, 1), &account{}
	at := func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			point.At(ctx, point.Begin, key)
		}
	}
	b.Run("before any simulation", at)
	point.Observe(ctx)
	b.Run("beside one", at)
}
