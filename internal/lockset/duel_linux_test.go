package lockset_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/lockset"
)

// Where the pause is forced between read and write there is no luck: every
// naive way loses, and Fencepost does not.
//
// Watched is not here: who wakes up first, the end of its lease or its write, is
// left to chance.
func TestForcedPauses(t *testing.T) {
	t.Parallel()
	type outcome struct{ acknowledged, lost, refused, failed int }
	loses := outcome{acknowledged: 2, lost: 1}
	refuses := outcome{acknowledged: 1, refused: 1}
	evicts := outcome{acknowledged: 1, failed: 1}
	for name, c := range map[string]struct {
		one, other lockset.Step // where they stop
		want       map[lockset.Way]outcome
	}{
		"the successor adds while the first stands at its work": {lockset.AtWork, "", map[lockset.Way]outcome{
			lockset.LockOnly: loses, lockset.CheckThenWrite: refuses,
		}},
		// hazard G1
		"the successor adds while the first stands at its write": {lockset.AtWrite, "", map[lockset.Way]outcome{
			lockset.LockOnly: loses, lockset.CheckThenWrite: loses,
			lockset.FenceOnWrite: refuses, lockset.Claimed: refuses, lockset.Transaction: evicts,
		}},
		// hazard G3
		"the first writes while the successor stands at its write": {lockset.AtWrite, lockset.AtWrite, map[lockset.Way]outcome{
			lockset.LockOnly: loses, lockset.CheckThenWrite: loses, lockset.FenceOnWrite: loses,
			lockset.Claimed: refuses, lockset.Transaction: evicts,
		}},
	} {
		for way, want := range c.want {
			t.Run(string(way)+": "+name, func(t *testing.T) {
				t.Parallel()
				o := config(t)
				o.Ways, o.TTL, o.Work = []lockset.Way{way}, 200*time.Millisecond, time.Millisecond
				o.Idle = o.TTL // or a transaction that stands keeps its successor for 5 s
				count, err := lockset.Duel(t.Context(), o, c.one, c.other)
				require.NoError(t, err)
				require.Equal(t, lockset.Count{
					Way: way, Begun: 2, Acknowledged: want.acknowledged, Lost: want.lost,
					Refused: want.refused, Failed: want.failed,
				}, count)
			})
		}
	}
}
