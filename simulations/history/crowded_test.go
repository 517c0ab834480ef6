package history_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/simulations/history"
)

// counted is a correct history of n units at once, of which some are unknown,
// and of reads between them. Each is applied in an instant of its own.
func counted(rng *rand.Rand, n int) history.History {
	var h history.History
	var applied []time.Duration
	around := func(op history.Op, at time.Duration) {
		op.Writer, op.Resource = "A", "account/42"
		op.Began, op.Ended = at-time.Duration(rng.IntN(200)), at+time.Duration(rng.IntN(200))
		h.Ops = append(h.Ops, op)
	}
	for range n {
		at := time.Duration(rng.IntN(1000)) * 2
		op := history.Op{Kind: history.Unit, Outcome: history.Accepted}
		if rng.IntN(5) == 0 {
			op.Outcome = history.Unknown
		}
		applied = append(applied, at)
		around(op, at)
	}
	for range n / 2 {
		at := time.Duration(rng.IntN(1000))*2 + 1
		op := history.Op{Kind: history.Read, Outcome: history.Accepted}
		for _, unit := range applied {
			if unit < at {
				op.Counted++
			}
		}
		around(op, at)
	}
	return h
}

func TestManyUnitsAtOnceAreCounted(t *testing.T) {
	t.Parallel()
	accused := 0
	for seed := range uint64(1000) {
		rng := rand.New(rand.NewPCG(seed, 5))
		h := counted(rng, 24)
		require.Empty(t, broken(t, h), "seed %d", seed)
		read := len(h.Ops) - 1 - rng.IntN(6)
		h.Ops[read].Counted += 2*rng.IntN(2) - 1
		found := broken(t, h)
		err := history.SecondOpinion(h, time.Minute)
		require.Equal(t, len(found) > 0, err != nil, "seed %d: %v, %v", seed, found, err)
		if len(found) > 0 {
			accused++
			require.Equal(t, []string{"once"}, ids(broken(t, history.History{Ops: found[0].Ops})), "seed %d: %v", seed, found[0])
		}
	}
	require.Greater(t, accused, 20)
}
