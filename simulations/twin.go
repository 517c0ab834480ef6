package simulations

import (
	"context"
	"fmt"
	"time"
)

// leastSeeds are tried however long they take.
const leastSeeds = 200

// bite looks for an interleaving of the plan, and for a random one, by which
// the twin is corrupted, and says which they were.
func bite(ctx context.Context, s Subject) (string, error) {
	x, err := scout(ctx, s, true)
	if err != nil {
		return "", err
	}
	n, planned := 0, error(nil)
	all := interleavings(x.steps)
	for ; n < len(all) && planned == nil; n++ {
		planned = x.perform(ctx, all[n])
	}
	if !corrupted(planned) {
		return "", toothless("plan", planned)
	}
	m, drawn := 0, error(nil)
	for begun := time.Now(); drawn == nil && (m < leastSeeds || s.goesOn(begun, m)); m++ {
		drawn = x.shuffle(ctx, s.Seed+uint64(m))
	}
	if !corrupted(drawn) {
		return "", toothless("random", drawn)
	}
	return fmt.Sprintf("as expected, the twin was corrupted, by interleaving %d of %d and by random %d:\n%s\n%s",
		n, len(all), m, planned, drawn), nil
}

// toothless passes on what kept the twin from being performed at all.
func toothless(plan string, err error) error {
	if err == nil {
		return &Verdict{Interleaving: plan}
	}
	return fmt.Errorf("simulations: the twin: %w", err)
}
