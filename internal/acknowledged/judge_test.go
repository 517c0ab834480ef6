package acknowledged_test

import (
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/simulations/history"
)

// settle waits until no statement is under way any more, also of those whose
// writer has given up.
func (r *run) settle() {
	r.Helper()
	require.Eventually(r, func() bool {
		var sessions int
		err := r.pool.QueryRow(r.Context(), "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", r.schema).Scan(&sessions)
		require.NoError(r, err)
		return sessions == 0
	}, patience, 10*time.Millisecond)
}

// judge returns what came of each cell, and which rules of the resource its
// history breaks. Those of the lock it must break: locks are taken away.
func (r *run) judge() (counts []count, broken []history.Violation) {
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

// look is the value that a row has in the end.
func (r *run) look(key string) history.Op {
	r.Helper()
	op := history.Op{
		Kind: history.Read, Writer: "judge", Resource: resource(key), Outcome: history.Accepted, Began: r.recorder.Now(),
	}
	l, err := read(r.Context(), r.pool, r.schema, key)
	require.NoError(r, err)
	op.Counted, op.Ended = l.value, r.recorder.Now()
	return op
}

// await asks whether it is enough, from time to time. It gives up where nothing
// is acknowledged for long.
func (r *run) await(enough func() bool) {
	r.Helper()
	before, since := -1, time.Now()
	for !enough() {
		require.False(r, r.Failed(), "a process has failed")
		if total := r.acknowledged(); total != before {
			before, since = total, time.Now()
		}
		require.Less(r, time.Since(since), patience, "nothing is acknowledged any more")
		time.Sleep(20 * time.Millisecond)
	}
}

func (r *run) acknowledged() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.total
}
