package simulations_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/simulations"
)

func TestSameSeedSameRunInMemory(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		first := shuffled(t, seed)
		require.Equal(t, first, shuffled(t, seed), "seed %d", seed)
	}
}

// shuffled is what everybody did, in fake time: a busy machine is late, and a
// lease ends in the meantime.
func shuffled(t *testing.T, seed uint64) (did []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var err error
		did, err = simulations.Shuffle(t.Context(), (&ledger{marks: new(guard.Memory)}).subject(), seed)
		require.NoError(t, err)
	})
	return did
}
