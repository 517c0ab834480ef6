package stdsql_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// hazard G21
func TestAPrunedMarkDoesNotAdmitTheStale(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		floor := map[string]string{"marks": "floor"}[db.marks]
		if floor == "" {
			floor = "fencepost_floor"
		}
		prune := func(cutoff int) {
			run(t, db, fmt.Sprintf("UPDATE %s SET number = %d", floor, cutoff))
			run(t, db, fmt.Sprintf("DELETE FROM %s WHERE number < %d", db.marks, cutoff))
		}
		zombie, successor := tok(33, "a"), tok(34, "b")
		db.claim(t, zombie, successor)
		require.ErrorIs(t, db.guard().Admit(t.Context(), zombie), guard.ErrStale)

		run(t, db, "DELETE FROM "+db.marks)
		db.claim(t, zombie) // the twin, pruned without a floor, must admit the stale

		db.claim(t, successor)
		prune(40)
		require.Zero(t, db.mark(t, account))
		var stale *guard.StaleError
		require.ErrorAs(t, db.guard().Admit(t.Context(), successor), &stale)
		require.Equal(t, guard.Mark{Number: 40}, stale.Mark, "the floor has no holder")
		require.NotErrorIs(t, stale, guard.ErrCollision)
		ctx := holding(t, 39, "c")
		require.ErrorIs(t, db.update(ctx, add(ctx, 1)), guard.ErrStale)
		at := holding(t, 40, "c")
		require.NoError(t, db.update(at, add(at, 1)), "at the floor")

		other := token.Token{Resource: "account/43", Number: 41, Holder: "a"}
		db.claim(t, other)
		run(t, db, fmt.Sprintf("UPDATE %s SET number = 50", floor))
		other.Number++
		db.claim(t, other) // where there is a mark, it alone decides
	})
}
