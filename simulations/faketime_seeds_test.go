package simulations_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestInFakeTimeNoRuleIsBrokenWhateverTheSeed(t *testing.T) {
	t.Parallel()
	const seeds = 500
	corrupted, booked, began := 0, 0, time.Now()
	for seed := range uint64(seeds) {
		c := crowd{seed: seed, names: "ABC", rounds: 4, issuer: inMemory}
		p := c.fight(t)
		require.NoError(t, p.judge(), "seed %d", seed)
		booked += p.booked
		c.twin = true
		if c.fight(t).judge() != nil {
			corrupted++
		}
	}
	t.Logf("%d seeds in %s, %d writes; the unguarded twin broke rules under %d of them", seeds, time.Since(began), booked, corrupted)
	require.Greater(t, corrupted, seeds/2, "toothless")
}

func TestInFakeTimeTheSameSeedIsTheSameRun(t *testing.T) {
	t.Parallel()
	const seeds = 100
	different := map[string]bool{}
	for seed := range uint64(seeds) {
		c := crowd{seed: seed, names: "ABCD", rounds: 3, issuer: inMemory}
		first := c.fight(t).diary()
		require.Equal(t, first, c.fight(t).diary(), "seed %d", seed)
		different[first] = true
	}
	require.Len(t, different, seeds, "the seed decides nothing")
}
