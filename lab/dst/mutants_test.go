package dst_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/lab/dst"
)

// hazards G1 G2 G3 G4 G5 G9 G10 G16 G21 G26 R1 R2 R5 R7 R13 P1 P2 P5 L1 L2 L4 W1 W2 W3 W12
func TestEveryMutantIsFound(t *testing.T) {
	t.Parallel()
	mutants := dst.Mutants()
	require.GreaterOrEqual(t, len(mutants), 25)
	names := map[string]bool{}
	for _, m := range mutants {
		require.False(t, names[m.Name], "%s is there twice", m.Name)
		names[m.Name] = true
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			d, err := dst.Kill(t.Context(), m, dst.Plan{Seed: 1, Schedules: 100, Faults: dst.All})
			require.NoError(t, err)
			require.NotZero(t, d.Seed, "it survives")
			if !refusing[m.Name] {
				require.NotContains(t, []string{"spurious-refusal", "liveness"}, d.Rule, "it must be found by what it admits and not by what it refuses")
			}
		})
	}
}

// refusing are the mutants whose mistake is a refusal, or after which no holder gets the
// lock.
var refusing = map[string]bool{
	"equality": true, "strict less-than": true, "signature not verified": true,
	"recovery does nothing": true, "holder never suspects the lock": true,
}

// Each mutant changes the decisions of its own runs only.
func TestMutantsLeaveTheDecisionsAlone(t *testing.T) {
	t.Parallel()
	plan := dst.Plan{Seed: 1, Schedules: 50, Faults: dst.All}
	before, err := dst.Explore(t.Context(), plan, ignore)
	require.NoError(t, err)
	for _, m := range dst.Mutants() {
		_, err := dst.Kill(t.Context(), m, dst.Plan{Seed: 1, Schedules: 5, Faults: dst.All})
		require.NoError(t, err)
	}
	after, err := dst.Explore(t.Context(), plan, ignore)
	require.NoError(t, err)
	require.Equal(t, before, after)
}
