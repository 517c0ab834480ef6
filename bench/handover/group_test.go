package handover_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/bench/handover"
	"github.com/fencepost/fencepost/bench/measure"
	"github.com/fencepost/fencepost/internal/testenv"
)

// Every trial is run once on a real server, in short blocks. Each checks that
// nobody had the lock beside somebody else.
func TestEveryTrialIsMeasured(t *testing.T) {
	t.Parallel()
	g, err := handover.Open(t.Context(), "redis://"+testenv.SpareRedis(t).Options().Addr)
	require.NoError(t, err)
	defer g.Close()
	trials := g.Trials()
	for i := range trials {
		trials[i].Rounds, trials[i].Shortest, trials[i].Longest, trials[i].WarmUp = 1, 300*time.Millisecond, 0, 0
	}
	var names []string
	require.NoError(t, measure.Plan{}.Run(t.Context(), "handover", measure.All(trials), func(r measure.Row) error {
		names = append(names, r.Name)
		require.Positive(t, r.Ratio, r.Name)
		return nil
	}))
	for _, crowd := range []string{"8 waiters", "32 waiters", "128 waiters", "8 waiters at once"} {
		for _, side := range []string{"one process", "processes", "redislock", "redsync", "rueidislock, one key"} {
			for _, quantity := range []string{
				"hand-over p50", "hand-over p99", "wait p99", "acquires a second", "commands an acquire", "fairness",
			} {
				require.Contains(t, names, crowd+", "+side+": "+quantity)
			}
		}
	}
}
