package acknowledged_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// hazard G3
func TestNoAcknowledgedWriteIsLost(t *testing.T) {
	target, full := writes(t)
	o, rows := order{Sleeps: 40}, 2
	if full {
		o.Sleeps, rows = 100, 4 // or most of the time goes by asleep
	}
	r, began := newRun(t, rows), time.Now()
	r.until(o, func() bool { return r.acknowledged() >= target })
	took := time.Since(began)
	counts, broken := r.judge()
	t.Logf("%v; a process was stopped %d times, a lock forgotten %d times\n\n%s",
		took.Round(time.Second), r.pauses, r.forgotten, table(counts))
	for _, c := range counts {
		require.Zero(t, c.lost, "%s with %s", c.Way, c.Issuer)
		require.Positive(t, c.acknowledged, "%s with %s", c.Way, c.Issuer)
	}
	require.Empty(t, broken)
}

// hazard G3
func TestWithGuardsThatObserveEveryWayLosesSome(t *testing.T) {
	r := newRun(t, 2)
	deadline := time.Now().Add(2 * patience)
	r.until(order{Twin: true, Sleeps: 3}, func() bool { return r.haveLost() || time.Now().After(deadline) })
	counts, broken := r.judge()
	t.Logf("\n%s", table(counts))
	for _, c := range counts {
		require.Positive(t, c.lost, "toothless: %s with %s", c.Way, c.Issuer)
	}
	require.NotEmpty(t, broken, "and the judge must see it")
}

// haveLost says whether all have.
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
