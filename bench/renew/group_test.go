package renew_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/bench/measure"
	"github.com/fencepost/fencepost/bench/renew"
	"github.com/fencepost/fencepost/internal/testenv"
)

// Every trial is run once on a real server, with few leases that are renewed
// often. A lease that is not renewed in time is an error.
func TestEveryTrialIsMeasured(t *testing.T) {
	g, err := renew.Open(t.Context(), "redis://"+testenv.SpareRedis(t).Options().Addr)
	require.NoError(t, err)
	defer g.Close()
	g.Leases, g.TTL = 500, 3*time.Second
	rows := map[string]measure.Row{}
	require.NoError(t, measure.Plan{}.Run(t.Context(), "renew", measure.All(g.Trials()), func(r measure.Row) error {
		rows[r.Name] = r
		return nil
	}))
	for _, side := range []string{"one wheel", "one by one"} {
		for _, quantity := range []string{"client CPU", "Redis CPU", "packets", "lateness"} {
			require.Positive(t, rows[side+": "+quantity].Ratio, quantity)
		}
		require.Contains(t, rows, side+": renewal state")
	}
	require.Greater(t, rows["one by one: renewal state"].Ratio, 2048.0, "the stack of a goroutine")
	require.Greater(t, rows["one by one: packets"].Ratio, 400.0, "one for each renewal")
}
