package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const day = 24 * time.Hour

// hazard G21
func TestMarksPrune(t *testing.T) {
	t.Parallel()
	m := newMarked(t)
	old, young := m.ago(31*day), m.ago(29*day)
	m.admit("account/old", old, "a")
	m.admit("account/young", young, "a")

	dry := m.run("prune", "--older-than", "720h", "--dry-run")
	require.Zero(t, dry.status, dry.err)
	require.Contains(t, dry.out, "1 of 2 marks would go, and the floor be ")
	require.Zero(t, m.floor())
	object := objects(t, m.run("prune", "--older-than", "720h", "--dry-run", "--json").out)[0]
	require.Regexp(t, "^[0-9]{15}$", object["floor"])
	require.NotEmpty(t, object["floor_time"])
	delete(object, "floor")
	delete(object, "floor_time")
	require.Equal(t, map[string]any{"dry_run": true, "marks": 2.0, "old": 1.0, "pruned": 0.0}, object)

	before := m.ago(30 * day)
	done := m.run("prune", "--older-than", "720h")
	require.Zero(t, done.status, done.err)
	require.GreaterOrEqual(t, m.floor(), before)
	require.LessOrEqual(t, m.floor(), m.ago(30*day))
	require.Equal(t, fmt.Sprintf("1 of 2 marks are pruned, and the floor is %d (%s).\n", m.floor(), number(m.floor()).date()), done.out)
	require.Contains(t, m.run("list").out, "1 of 1 marks")
	_, err := m.pool.Exec(t.Context(), m.sql("SELECT fence.admit('account/old', $1, 'zombie')"), old-1)
	require.ErrorContains(t, err, "fencepost: stale token")

	floor := m.floor()
	done = m.run("prune", "--older-than", "1440h")
	require.Zero(t, done.status, done.err)
	require.Contains(t, done.out, fmt.Sprintf("0 of 1 marks are pruned, and the floor is %d ", floor))
	require.Equal(t, floor, m.floor())
}

func TestMarksPruneTakesMoreThanABatch(t *testing.T) {
	t.Parallel()
	m := newMarked(t)
	_, err := m.pool.Exec(t.Context(), m.sql("INSERT INTO fence.marks SELECT 'account/' || i, i, 'a' FROM generate_series(1, 2500) i"))
	require.NoError(t, err)
	tx, err := m.pool.Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(t.Context())
	_, err = tx.Exec(t.Context(), m.sql("SELECT fence.admit('account/7', 7, 'a')"))
	require.NoError(t, err)

	done := m.run("prune", "--older-than", "720h")
	require.Zero(t, done.status, done.err)
	require.Contains(t, done.out, "2499 of 2500 marks are pruned")
	require.Contains(t, done.out, "1 that are as old stay: their resources were busy, or their leases live.\n")
	object := objects(t, m.run("prune", "--older-than", "720h", "--json").out)[0]
	require.Equal(t, []any{false, 1.0, 1.0, 0.0}, []any{object["dry_run"], object["marks"], object["old"], object["pruned"]})
	require.Equal(t, fmt.Sprint(m.floor()), object["floor"])
}

func TestMarksPruneRefusesWhatIsYoung(t *testing.T) {
	t.Parallel()
	m := newMarked(t)
	m.admit("account/42", m.ago(2*time.Hour), "a")
	for _, c := range [][]string{
		{"1h", "older-than: 1h0m0s: a lease that is older, and has not claimed or written yet, would be refused; less than 24h needs --dangerously-young"},
		{"23h59m59s", "--dangerously-young"}, {"0s", "must be above 0"}, {"-720h", "must be above 0"},
	} {
		done := m.run("prune", "--older-than="+c[0])
		require.Equal(t, 2, done.status)
		require.Contains(t, done.err, c[1])
		require.Zero(t, m.floor())
	}
	require.Equal(t, 2, m.run("prune", "--older-than=-720h", "--dangerously-young").status)
	require.Zero(t, m.run("prune", "--older-than", "24h").status)
	done := m.run("prune", "--older-than", "1h", "--dangerously-young")
	require.Zero(t, done.status, done.err)
	require.Contains(t, done.out, "1 of 1 marks are pruned")
}
