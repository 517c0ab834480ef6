package simulations

import (
	"context"
	"testing"
	"time"
)

// Examine is Run without subtests, for those who expect the worst: it returns
// the first [*Verdict], or another error where something could not be carried
// out, and nil where every rule holds. It fails nothing.
func Examine(t testing.TB, s Subject) error {
	t.Helper()
	s, err := s.complete()
	if err != nil {
		return err
	}
	return examine(t.Context(), s)
}

func examine(ctx context.Context, s Subject) error {
	x, err := scout(ctx, s, false)
	if err != nil {
		return err
	}
	for _, i := range interleavings(x.steps) {
		if err := x.perform(ctx, i); err != nil {
			return err
		}
	}
	for begun, n := time.Now(), 0; s.goesOn(begun, n); n++ {
		if err := x.shuffle(ctx, s.Seed+uint64(n)); err != nil {
			return err
		}
	}
	_, err = bite(ctx, s)
	return err
}
