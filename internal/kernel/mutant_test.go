package kernel_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/kernel"
)

// hazards G1 G2 G3 G4 G5 G9 G10 G16 G21 G26 R1 R2 R5 R7 R13 P1 P2 P5 L1 L2 L4 W1 W2 W3 W12
func TestEveryMutantIsFound(t *testing.T) {
	t.Parallel()
	mutants := kernel.Mutants()
	require.GreaterOrEqual(t, len(mutants), 25)
	names := map[string]bool{}
	for _, m := range mutants {
		require.False(t, names[m.Name], "%s is there twice", m.Name)
		names[m.Name] = true
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			d, err := kernel.Kill(t.Context(), m, kernel.Plan{Seed: 1, Schedules: 100, Faults: kernel.All})
			require.NoError(t, err)
			require.NotZero(t, d.Seed, "it survives")
			if !refusing[m.Name] {
				require.NotContains(t, []string{"reason", "alive"}, d.Rule, "it dies of refusing, and not of what it admits")
			}
		})
	}
}

// refusing are those whose mistake is to refuse, or to keep everybody out.
var refusing = map[string]bool{
	"equality": true, "strict less-than": true, "seal not verified": true,
	"raise does nothing": true, "holder never suspects the lock": true,
}

// Each mutant is a change of the laws, and of nothing that lasts.
func TestMutantsLeaveTheLawsAlone(t *testing.T) {
	t.Parallel()
	plan := kernel.Plan{Seed: 1, Schedules: 50, Faults: kernel.All}
	before, err := kernel.Explore(t.Context(), plan, ignore)
	require.NoError(t, err)
	for _, m := range kernel.Mutants() {
		_, err := kernel.Kill(t.Context(), m, kernel.Plan{Seed: 1, Schedules: 5, Faults: kernel.All})
		require.NoError(t, err)
	}
	after, err := kernel.Explore(t.Context(), plan, ignore)
	require.NoError(t, err)
	require.Equal(t, before, after)
}
