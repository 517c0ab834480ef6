package sqlguard_test

import (
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// entry is one line of the ledger. Its n was drawn after its admission and
// before its commit, so that between two tokens n is the order of the commits.
type entry struct {
	N, Op  int64
	ID     int
	Number int64
	Holder string
	Value  *int64
}

// last is the newest thing that is known of a resource.
type last struct {
	number int64
	holder string
	value  int64
}

// check reads what was committed since the last time, when nobody writes:
//
//   - the numbers of a resource never fall
//   - equal numbers come from one holder
//   - each read-modify-write has counted on from the one before
//   - a write is there if and only if its writer was told so
func (tt *torture) check() {
	tt.t.Helper()
	rows, err := tt.env.pool.Query(tt.t.Context(), tt.sql("SELECT n, op, id, number, holder, value FROM ledger WHERE n > $1 ORDER BY n"), tt.seen)
	require.NoError(tt.t, err)
	entries, err := pgx.CollectRows(rows, pgx.RowToStructByPos[entry])
	require.NoError(tt.t, err)
	found := map[int64]bool{}
	for _, e := range entries {
		tt.history[e.ID] = tt.follow(tt.history[e.ID], e)
		tt.seen, found[e.Op] = e.N, true
	}
	for op, applied := range tt.applied {
		if applied != found[op] {
			tt.violate("write %d: its writer was told applied=%v, the ledger has it: %v", op, applied, found[op])
		}
	}
	clear(tt.applied)
}

// follow holds an entry against the one before.
func (tt *torture) follow(l last, e entry) last {
	switch {
	case e.Number < l.number:
		tt.violate("stale write %d accepted on %d: #%d after #%d", e.Op, e.ID, e.Number, l.number)
	case e.Number == l.number && e.Holder != l.holder:
		tt.violate("collision accepted on %d: #%d of %s after %s", e.ID, e.Number, e.Holder, l.holder)
	}
	if e.Value != nil {
		if *e.Value != l.value+1 {
			tt.violate("lost update on %d: write %d made it %d after %d", e.ID, e.Op, *e.Value, l.value)
		}
		l.value = *e.Value
	}
	l.number, l.holder = e.Number, e.Holder
	return l
}
