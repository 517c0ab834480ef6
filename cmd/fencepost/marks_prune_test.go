package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const day = 24 * time.Hour

// hazard G21
func TestMarksPrune(t *testing.T) { onEach(t, testMarksPrune) }

func testMarksPrune(t *testing.T, newMarked func(t *testing.T) *marked) {
	m := newMarked(t)
	old, young := m.ago(31*day), m.ago(29*day)
	m.admit("account/old", old, "a")
	m.admit("account/young", young, "a")

	dry := m.run("prune", "--older-than", "720h", "--dry-run")
	require.Zero(t, dry.status, dry.err)
	require.Contains(t, dry.out, "1 of 2 marks would be deleted, and the floor would be ")
	require.Zero(t, m.floor())
	object := objects(t, m.run("prune", "--older-than", "720h", "--dry-run", "--json").out)[0]
	require.Regexp(t, "^[0-9]{15}$", object["floor"])
	require.NotEmpty(t, object["floor_time"])
	delete(object, "floor")
	delete(object, "floor_time")
	require.Equal(t, map[string]any{"dry_run": true, "marks": 2.0, "old": 1.0, "pruned": 0.0, "free": 0.0, "units": 0.0}, object)

	before := m.ago(30 * day)
	done := m.run("prune", "--older-than", "720h")
	require.Zero(t, done.status, done.err)
	require.GreaterOrEqual(t, m.floor(), before)
	require.LessOrEqual(t, m.floor(), m.ago(30*day))
	require.Equal(t, fmt.Sprintf("1 of 2 marks are deleted, and the floor is %d (%s).\n"+
		"0 old marks are kept: their resources were busy, or their leases are valid.\n0 records of free leases and 0 expired units of Once are deleted.\n",
		m.floor(), date(m.floor())), done.out)
	require.Contains(t, m.run("list").out, "1 of 1 marks")
	require.ErrorContains(t, m.tryAdmit("account/old", old-1, "zombie"), "stale token")
	require.ErrorContains(t, m.tryAdmit("account/none", before-1, "zombie"), "stale token")

	floor := m.floor()
	done = m.run("prune", "--older-than", "1440h")
	require.Zero(t, done.status, done.err)
	require.Contains(t, done.out, fmt.Sprintf("0 of 1 marks are deleted, and the floor is %d ", floor))
	require.Equal(t, floor, m.floor())
}

func TestMarksPruneForgetsFreeLeases(t *testing.T) {
	t.Parallel()
	m := newMarked(t)
	old := m.ago(31 * day)
	m.admit("account/old", old, "a")
	m.exec("INSERT INTO fence.leases SELECT 'job/' || i, $1, '', '-infinity' FROM generate_series(1, 2500) i", old)
	require.Contains(t, m.run("prune", "--older-than", "720h", "--dry-run").out, "1 of 1 marks would be deleted")
	done := m.run("prune", "--older-than", "720h")
	require.Zero(t, done.status, done.err)
	require.Contains(t, done.out, "1 of 1 marks are deleted, and the floor is ")
	require.Contains(t, done.out, "\n2500 records of free leases and 0 expired units of Once are deleted.\n")
}

func TestMarksPruneDeletesUnitsWhoseTimeHasPassed(t *testing.T) {
	onEach(t, testMarksPruneDeletesUnitsWhoseTimeHasPassed)
}

func testMarksPruneDeletesUnitsWhoseTimeHasPassed(t *testing.T, newMarked func(t *testing.T) *marked) {
	m := newMarked(t)
	if m.pool != nil {
		m.exec("INSERT INTO fence.units SELECT 'account/42', 'old/' || i, sha256(''), '', now() - interval '1 s' FROM generate_series(1, 2500) i")
		m.exec("INSERT INTO fence.units VALUES ('account/42', 'young', sha256(''), '', now() + interval '1 h')")
	} else {
		m.exec("INSERT INTO fence.units SELECT 'account/42', CONCAT('old/', seq), REPEAT('x', 32), '', UNIX_TIMESTAMP() - 1 FROM seq_1_to_1100")
		m.exec("INSERT INTO fence.units VALUES ('account/42', 'young', REPEAT('x', 32), '', UNIX_TIMESTAMP() + 3600)")
		m.flags[1] += "?autocommit=0" // a DSN may have any setting
	}
	left := func() (keys int) {
		require.NoError(t, m.QueryRowContext(t.Context(), m.sql("SELECT count(*) FROM fence.units")).Scan(&keys))
		return keys
	}
	all := left()
	require.Zero(t, m.run("prune", "--older-than", "720h", "--dry-run").status)
	require.Equal(t, all, left())
	done := m.run("prune", "--older-than", "720h")
	require.Zero(t, done.status, done.err)
	require.Contains(t, done.out, fmt.Sprintf(" and %d expired units of Once are deleted.\n", all-1))
	require.Equal(t, 1, left())
	require.Contains(t, m.run("prune", "--older-than", "720h", "--json").out, `"units":0`)
}

func TestMarksPruneTakesMoreThanABatch(t *testing.T) { onEach(t, testMarksPruneTakesMoreThanABatch) }

func testMarksPruneTakesMoreThanABatch(t *testing.T, newMarked func(t *testing.T) *marked) {
	m := newMarked(t)
	if m.pool != nil {
		m.exec("INSERT INTO fence.marks SELECT 'account/' || i, i, 'a' FROM generate_series(1, 2500) i")
	} else {
		m.exec("INSERT INTO fence.marks SELECT CONCAT('account/', seq), seq, 'a' FROM seq_1_to_2500")
	}
	writer := m.write("account/7")
	require.Contains(t, m.run("prune", "--older-than", "720h", "--dry-run").out, "2500 of 2500 marks would be deleted")

	done := m.run("prune", "--older-than", "720h")
	require.Zero(t, done.status, done.err)
	require.Contains(t, done.out, "2499 of 2500 marks are deleted")
	require.Contains(t, done.out, "1 old marks are kept: their resources were busy, or their leases are valid.\n")
	n, _ := m.mark("account/7")
	require.EqualValues(t, 7, n)
	object := objects(t, m.run("prune", "--older-than", "720h", "--json").out)[0]
	require.Equal(t, []any{false, 1.0, 1.0, 0.0}, []any{object["dry_run"], object["marks"], object["old"], object["pruned"]})
	require.Equal(t, fmt.Sprint(m.floor()), object["floor"])
	require.NoError(t, writer.Commit())
	require.Contains(t, m.run("prune", "--older-than", "720h").out, "1 of 1 marks are deleted")
}

func TestMarksPruneRefusesAShortAge(t *testing.T) { onEach(t, testMarksPruneRefusesAShortAge) }

func testMarksPruneRefusesAShortAge(t *testing.T, newMarked func(t *testing.T) *marked) {
	m := newMarked(t)
	m.admit("account/42", m.ago(2*time.Hour), "a")
	for _, c := range [][]string{
		{"1h", "older-than: 1h0m0s: a lease that is older, and has not claimed or written yet, would be refused; less than 24h needs --dangerously-young"},
		{"23h59m59s", "--dangerously-young"}, {"0s", "must be above 0"}, {"-720h", "a duration cannot be negative"},
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
	require.Contains(t, done.out, "1 of 1 marks are deleted")
}
