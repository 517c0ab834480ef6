package sqlguard_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// entry is one row of the ledger. Its n was drawn after its admission and before its
// commit, so n orders the commits of different tokens.
type entry struct {
	N, Op  int64
	ID     int
	Number int64
	Holder string
	Value  *int64
}

// last is the latest known state of a resource.
type last struct {
	number int64
	holder string
	value  int64
}

// check reads the entries that were committed since the last check, while no writer runs:
//
//   - the numbers of a resource never fall
//   - equal numbers come from one holder
//   - each read-modify-write continues from the previous one
//   - a write is in the database if and only if its writer got nil
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

// follow compares an entry with the previous one.
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

// The torture must detect every mutant: the migrated functions with one part removed.
func TestStressTortureCatchesMutants(t *testing.T) {
	t.Parallel()
	type change struct {
		function string
		oldnew   []string
	}
	for name, changes := range map[string][]change{
		"no lock": {
			{"admit", []string{"pg_catalog.pg_try_advisory_xact_lock_shared(", "0 <> abs(", "pg_advisory_xact_lock_shared(", "abs("}},
			{"admit_slow", []string{"pg_advisory_xact_lock_shared(", "abs("}},
			{"lock_exclusive", []string{"pg_advisory_xact_lock(", "abs("}},
		},
		"no lock for a look": {
			{"admit", []string{"pg_catalog.pg_try_advisory_xact_lock_shared(", "0 <> abs("}},
		},
		"no holder": {
			{"admit", []string{" AND m.holder OPERATOR(pg_catalog.=) h", ""}},
			{"admit_slow", []string{"n = t AND o = h", "n = t", " OR o IS DISTINCT FROM h", ""}},
		},
		"strictly less": {
			{"admit", []string{"m.holder OPERATOR(pg_catalog.=) h", "false"}},
			{"admit_slow", []string{"ELSIF n = t AND o = h THEN", "ELSIF n = t AND o = h THEN RAISE EXCEPTION USING ERRCODE = 'ZF001', DETAIL = n || ' ' || o;"}},
		},
		"no second read under the shared lock": {
			{"admit", []string{"-- The mark may have been raised", "RETURN; --"}},
		},
		"a raise under the fixed snapshot": {
			{"admit_slow", []string{"NOT IN ('read committed', 'read uncommitted')", "= 'no such level'", "bound < 0", "false"}},
		},
		"no row lock under the fixed snapshot": {
			{"admit_slow", []string{" FOR SHARE", ""}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt := newTorture(t)
			for _, c := range changes {
				tt.mutate(c.function, c.oldnew...)
			}
			tt.breaks()
		})
	}
}
