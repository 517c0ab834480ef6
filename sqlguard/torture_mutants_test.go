package sqlguard_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The torture is worth what it catches: each mutant is the migrated functions
// with one thing taken away.
func TestTortureCatchesMutants(t *testing.T) {
	t.Parallel()
	type change struct {
		function string
		oldnew   []string
	}
	for name, changes := range map[string][]change{
		"no lock": {
			{"admit", []string{"pg_catalog.pg_try_advisory_xact_lock_shared(", "0 <> abs(", "pg_advisory_xact_lock_shared(", "abs("}},
			{"admit_slow", []string{"pg_advisory_xact_lock_shared(", "abs("}},
			{"lock_alone", []string{"pg_advisory_xact_lock(", "abs("}},
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
			{"admit", []string{"-- It may have been raised", "RETURN; --"}},
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
			start := time.Now()
			tt.run(tortured)
			t.Logf("seed %d: caught after %d writes in %s", tt.seed, tt.ops.Load(), time.Since(start).Round(time.Millisecond))
			require.NotEmpty(t, tt.violations, "the torture does not catch it: FENCEPOST_TEST_SEED=%d", tt.seed)
			t.Log(tt.violations[0])
		})
	}
}
