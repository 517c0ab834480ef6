// Package durability counts read-modify-writes that were acknowledged on real
// servers, and checks that none of them was lost.
//
//	test ──▶ process: holder, holder, …  ──▶ lock ──▶ claim, read, work, guarded write
//	     ◀── acknowledged, …             ◀──
//
// Meanwhile processes are stopped past the TTL of their locks, holders sleep until their
// lock is lost and write nevertheless, writers give up in the middle of a write, and
// issuers forget their locks. At the end each row must have the value of the acknowledged
// writes, plus the unknown writes that a trigger has recorded. The same run with
// report-only guards must lose writes in every way, otherwise it has proven nothing.
//
// All processes are this test binary, started again.
package durability_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/subprocess"
	"github.com/fencepost/fencepost/internal/test/leaktest"
	"github.com/fencepost/fencepost/internal/test/testenv"
)

const (
	// envWrites is the number of acknowledged writes.
	envWrites = "FENCEPOST_ACKNOWLEDGED"
	// envSeed repeats the faults of a run. The interleaving between them is not
	// repeatable.
	envSeed = "FENCEPOST_TEST_SEED"
	// role is the role of a process of holders.
	role = "holders"
)

const (
	ttl = 250 * time.Millisecond
	// processes is the number of processes, each with one holder for each row.
	processes = 3
	// testTimeout is when a test that hangs fails.
	testTimeout = 5 * time.Minute
)

func TestMain(m *testing.M) {
	subprocess.Serve(map[string]func(*subprocess.Parent) error{role: serve})
	leaktest.Main(m)
}

// writes returns how many writes must be acknowledged.
func writes(t *testing.T) (n int, full bool) {
	t.Helper()
	return testenv.Rounds(t, envWrites, 3000), os.Getenv(envWrites) != ""
}

func seed() uint64 {
	if given, err := strconv.ParseUint(os.Getenv(envSeed), 10, 64); err == nil {
		return given
	}
	return rand.Uint64N(1e6)
}

// hazard G3
func TestNoAcknowledgedWriteIsLost(t *testing.T) {
	target, full := writes(t)
	o, rows := order{Sleeps: 40}, 2
	if full {
		o.Sleeps, rows = 100, 4 // otherwise most of the time is spent asleep
	}
	r, began := newRun(t, rows), time.Now()
	r.until(o, func() bool { return r.acknowledged() >= target })
	took := time.Since(began)
	counts, broken := r.check()
	t.Logf("%v; a process was stopped %d times, a lock forgotten %d times\n\n%s",
		took.Round(time.Second), r.pauses, r.forgotten, table(counts))
	for _, c := range counts {
		require.Zero(t, c.lost, "%s with %s", c.Way, c.Issuer)
		require.Positive(t, c.acknowledged, "%s with %s", c.Way, c.Issuer)
	}
	require.Empty(t, broken)
}

// hazard G3
func TestWithReportOnlyGuardsEveryWayLosesSome(t *testing.T) {
	r := newRun(t, 2)
	deadline := time.Now().Add(2 * testTimeout)
	r.until(order{Twin: true, Sleeps: 3}, func() bool { return r.haveLost() || time.Now().After(deadline) })
	counts, broken := r.check()
	t.Logf("\n%s", table(counts))
	for _, c := range counts {
		require.Positive(t, c.lost, "no loss, so the run proves nothing: %s with %s", c.Way, c.Issuer)
	}
	require.NotEmpty(t, broken, "the check must find the lost writes")
}

// haveLost reports whether all cells have lost a write.
func (r *run) haveLost() bool {
	r.Helper()
	for _, c := range r.cells {
		var lost int
		err := r.pool.QueryRow(r.Context(), in(r.schema,
			"SELECT (SELECT count(*) FROM {schema}.increments WHERE account = ANY ($1)) - sum(value) FROM {schema}.accounts WHERE id = ANY ($1)"),
			c.keys()).Scan(&lost)
		require.NoError(r, err)
		if lost == 0 {
			return false
		}
	}
	return true
}

// cell is a way to write under the locks of an issuer. It has rows of its own.
type cell struct {
	Issuer, Way string
	rows        int
}

func cells(rows int) (all []cell) {
	for issuer := range issuers {
		for way := range ways {
			all = append(all, cell{issuer, way, rows})
		}
	}
	slices.SortFunc(all, func(a, b cell) int {
		return strings.Compare(a.Way+"/"+a.Issuer, b.Way+"/"+b.Issuer)
	})
	return all
}

// keys returns the keys of the cell's rows.
func (c cell) keys() (keys []string) {
	for n := range c.rows {
		keys = append(keys, fmt.Sprintf("%s/%s/%d", c.Way, c.Issuer, n))
	}
	return keys
}

// kind is the prefix of the resource of each row.
const kind = "account/"

func resource(key string) string { return kind + key }
