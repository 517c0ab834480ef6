//go:build unix

package lockset_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/lockset"
	"github.com/fencepost/fencepost/internal/testenv"
)

// envRuns asks for that many runs at full length. Without it there is one short
// run, whose ttl, work and pauses are a tenth.
const envRuns = "FENCEPOST_EXPERIMENT_RUNS"

func TestExperiment(t *testing.T) {
	t.Parallel()
	c := config(t)
	runs, full := fullRuns(t)
	if !full {
		c.TTL, c.Work, c.Every, c.Length = c.TTL/10, c.Work/10, c.Every/10, 5*time.Second
		c.Seed = rand.Uint64N(1e6)
	}
	var total lockset.Report
	for range runs {
		c.Seed++ // full runs have seeds 1, 2, 3 …: nobody has chosen them
		report, err := lockset.Run(t.Context(), c)
		require.NoError(t, err)
		t.Logf("seed %d: %s", c.Seed, report)
		requireBooks(t, report)
		total.Add(report)
	}
	if full { // in a short run the lock can be lucky
		fmt.Printf("\n%s, %s\n", time.Now().UTC().Format(time.DateOnly), &total)
		require.NoError(t, total.Toothless())
	}
	require.NoError(t, total.Verdict())
}

func fullRuns(t *testing.T) (runs int, full bool) {
	t.Helper()
	text := os.Getenv(envRuns)
	if text == "" {
		return 1, false
	}
	runs, err := strconv.Atoi(text)
	require.NoError(t, err, envRuns)
	require.Positive(t, runs, envRuns)
	return runs, true
}

func requireBooks(t *testing.T, report *lockset.Report) {
	t.Helper()
	require.Len(t, report.Counts, len(lockset.Ways()))
	require.Positive(t, report.Pauses)
	for i, c := range report.Counts {
		require.Equal(t, lockset.Ways()[i], c.Way)
		require.Equal(t, c.Begun, c.Acknowledged+c.Refused+c.Failed+c.Unknown, c.Way)
		require.Zero(t, c.Ghosts, c.Way)
	}
}

// config is the full experiment, on the servers of the tests.
func config(t *testing.T) lockset.Config {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	_, prefix := testenv.Redis(t)
	_, schema := testenv.Postgres(t)
	return lockset.Config{
		Argv: []string{self}, Env: []string{asWorker},
		Redis: testenv.RedisURL(t), Prefix: prefix, Postgres: testenv.PostgresURL(t), Schema: schema,
		Ways: lockset.Ways(), Processes: lockset.Processes,
		TTL: lockset.TTL, Work: lockset.Work, Every: lockset.Every, Length: lockset.Length,
	}
}
