package simulate_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/simulate"
	"github.com/fencepost/fencepost/internal/testenv"
)

const rounds = 2

func options(t *testing.T) simulate.Options {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	return simulate.Options{Rounds: rounds, TTL: 100 * time.Millisecond, Writer: []string{self}}
}

// hazard G1
// hazard G2
func TestRunOnEmbeddedServers(t *testing.T) {
	t.Parallel()
	report, err := simulate.Run(t.Context(), options(t))
	require.NoError(t, err)
	require.Equal(t, "redis (embedded)", report.Issuer)
	require.Equal(t, "sqlite (embedded)", report.Store)
	requireFenced(t, report)
}

func TestRunOnRealServers(t *testing.T) {
	t.Parallel()
	o := options(t)
	o.Redis, o.Postgres = testenv.RedisURL(t), testenv.PostgresURL(t)
	report, err := simulate.Run(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, "redis", report.Issuer)
	require.Equal(t, "postgres", report.Store)
	requireFenced(t, report)
}

func TestRunWithEveryPause(t *testing.T) {
	t.Parallel()
	for name, pause := range pauses() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options(t)
			o.Rounds, o.Pause = 1, pause
			report, err := simulate.Run(t.Context(), o)
			require.NoError(t, err)
			require.Equal(t, pause.String(), report.Pause)
			requireCounts(t, report, 1)
		})
	}
}

// A ttl that is hardly more than the time a machine needs must not turn
// anything into a figure that was not seen.
func TestRunWithTheShortestTTL(t *testing.T) {
	t.Parallel()
	o := options(t)
	o.TTL = simulate.MinTTL
	report, err := simulate.Run(t.Context(), o)
	require.NoError(t, err)
	requireFenced(t, report)
}

// requireFenced: in every round the naive ways accept the stale write and lose
// the successor's, and the guard refuses it.
func requireFenced(t *testing.T, report *simulate.Report) {
	t.Helper()
	require.Equal(t, rounds, report.Rounds)
	requireCounts(t, report, rounds)
	require.True(t, report.Fenced())
	require.True(t, report.Corrupted())
}

func requireCounts(t *testing.T, report *simulate.Report, n int) {
	t.Helper()
	require.Len(t, report.Runs, 4)
	for _, way := range []simulate.Way{simulate.Unguarded, simulate.Recheck, simulate.CheckThenWrite} {
		count := report.Of(way)
		require.Equal(t, []string{"B+20"}, count.Example.Lost(), way)
		require.Equal(t, []int{n, n, n, 0}, figures(count), way)
	}
	require.Empty(t, report.Of(simulate.Guarded).Example.Lost())
	require.Equal(t, []int{n, 0, 0, n}, figures(report.Of(simulate.Guarded)))
}

func figures(c simulate.Count) []int {
	return []int{c.StaleAttempted, c.StaleAccepted, c.UpdatesLost, c.Refused}
}
