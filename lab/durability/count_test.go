package durability_test

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/history"
)

//go:embed accounts.sql
var accountsSQL string

// in puts a schema's name into text.
func in(schema, text string) string {
	return strings.ReplaceAll(text, "{schema}", pgx.Identifier{schema}.Sanitize())
}

// open makes the rows of all cells, with value 0.
func open(t *testing.T, pool *pgxpool.Pool, schema string, all []cell) {
	t.Helper()
	_, err := pool.Exec(t.Context(), in(schema, accountsSQL))
	require.NoError(t, err)
	for _, c := range all {
		_, err := pool.Exec(t.Context(), in(schema, "INSERT INTO {schema}.accounts (id) SELECT unnest($1::text[])"), c.keys())
		require.NoError(t, err)
	}
}

// ledger is the state of a row in the database.
type ledger struct {
	value int
	times map[string]int // how often each unit was applied
}

func read(ctx context.Context, pool *pgxpool.Pool, schema, key string) (ledger, error) {
	l := ledger{times: map[string]int{}}
	err := pool.QueryRow(ctx, in(schema, selectSQL), key).Scan(&l.value)
	if err != nil {
		return l, err
	}
	applied, err := pool.Query(ctx, in(schema, "SELECT unit FROM {schema}.increments WHERE account = $1"), key)
	if err != nil {
		return l, err
	}
	units, err := pgx.CollectRows(applied, pgx.RowTo[string])
	for _, unit := range units {
		l.times[unit]++
	}
	return l, err
}

// settle waits until no statement is running, including statements whose writer has given
// up.
func (r *run) settle() {
	r.Helper()
	require.Eventually(r, func() bool {
		var sessions int
		err := r.pool.QueryRow(r.Context(), "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", r.schema).Scan(&sessions)
		require.NoError(r, err)
		return sessions == 0
	}, testTimeout, 10*time.Millisecond)
}

// check returns the counts of each cell, and the rules of the resource that its history
// breaks. The history must break rules of the lock, since locks are deleted.
func (r *run) check() (counts []count, broken []history.Violation) {
	r.Helper()
	r.settle()
	h := r.recorder.History()
	units := map[string][]history.Op{}
	for _, op := range h.Ops {
		if op.Kind == history.Unit {
			units[op.Resource] = append(units[op.Resource], op)
		}
	}
	for _, c := range r.cells {
		counts = append(counts, r.count(c, units))
		for _, key := range c.keys() {
			h.Ops = append(h.Ops, r.look(key))
		}
	}
	broken, err := history.Check(h)
	require.NoError(r, err)
	return counts, slices.DeleteFunc(broken, func(v history.Violation) bool { return v.Rule.At != history.AtResource })
}

// look returns the final value of a row.
func (r *run) look(key string) history.Op {
	r.Helper()
	op := history.Op{
		Kind: history.Read, Writer: "check", Resource: resource(key), Outcome: history.Accepted, Began: r.recorder.Now(),
	}
	l, err := read(r.Context(), r.pool, r.schema, key)
	require.NoError(r, err)
	op.Counted, op.Ended = l.value, r.recorder.Now()
	return op
}

// await calls enough from time to time. If no write is acknowledged for too long, the
// test fails.
func (r *run) await(enough func() bool) {
	r.Helper()
	before, since := -1, time.Now()
	for !enough() {
		require.False(r, r.Failed(), "a process has failed")
		if total := r.acknowledged(); total != before {
			before, since = total, time.Now()
		}
		require.Less(r, time.Since(since), testTimeout, "no write is acknowledged any more")
		time.Sleep(20 * time.Millisecond)
	}
}

func (r *run) acknowledged() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.total
}

// count is the result of a cell.
type count struct {
	cell
	acknowledged, refused, failed, unknown int

	late int // unknown writes that were applied
	lost int // acknowledged or applied, and missing in the value
}

// count compares the acknowledged writes with the cell's rows in the database. If they
// disagree, the test fails.
func (r *run) count(c cell, units map[string][]history.Op) count {
	r.Helper()
	sum := count{cell: c}
	for _, key := range c.keys() {
		l, err := read(r.Context(), r.pool, r.schema, key)
		require.NoError(r, err)
		acknowledged, applied := 0, 0
		for _, unit := range units[resource(key)] {
			times := l.times[unit.Note]
			delete(l.times, unit.Note)
			applied += times
			switch unit.Outcome {
			case history.Accepted:
				acknowledged++
				require.Equal(r, 1, times, "%s: %s was acknowledged", key, unit.Note)
			case history.Refused:
				sum.refused++
				require.Zero(r, times, "%s: %s was refused", key, unit.Note)
			case history.Failed:
				sum.failed++
				require.Zero(r, times, "%s: %s failed", key, unit.Note)
			default:
				sum.unknown++
				sum.late += times
				require.LessOrEqual(r, times, 1, "%s: %s was applied again", key, unit.Note)
			}
		}
		require.Empty(r, l.times, "%s: no unit has written this", key)
		require.Equal(r, r.received[key], acknowledged, "%s: the acknowledgements that arrived, and those in the history", key)
		sum.acknowledged += acknowledged
		sum.lost += applied - l.value
	}
	return sum
}

func (c count) String() string {
	return fmt.Sprintf("| `%s` | `%s` | %d | %d | %d | %d | %d | %d |",
		c.Way, c.Issuer, c.acknowledged, c.refused, c.failed, c.unknown, c.late, c.lost)
}

// table returns all counts in Markdown.
func table(all []count) string {
	var b strings.Builder
	b.WriteString("| way | issuer | acknowledged | refused | failed | unknown | of these applied | lost |\n|---|---|--:|--:|--:|--:|--:|--:|\n")
	sum := count{cell: cell{Way: "in all", Issuer: "–"}}
	for _, c := range all {
		fmt.Fprintln(&b, c)
		sum.acknowledged += c.acknowledged
		sum.refused += c.refused
		sum.failed += c.failed
		sum.unknown += c.unknown
		sum.late += c.late
		sum.lost += c.lost
	}
	fmt.Fprintln(&b, strings.NewReplacer("`", "").Replace(sum.String()))
	return b.String()
}
