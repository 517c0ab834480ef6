package sqlguard_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard"
)

// A row that came by another door, or that has had its columns for a moment
// only, carries no mark. What the marks table has admitted counts for it.
//
// hazard G22
func TestARowWithoutAMark(t *testing.T) {
	t.Parallel()
	for name, none := range map[string]string{"0": "0", "NULL": "NULL"} {
		t.Run("of "+name+" is judged by the marks table", func(t *testing.T) {
			t.Parallel()
			e := newRows(t)
			e.exec("ALTER TABLE accounts ALTER last_token DROP NOT NULL")
			e.exec("DELETE FROM accounts WHERE id = 42")
			require.NoError(t, e.accounts.Claim(e.bounded(), tokenOf(34)))
			require.NoError(t, e.guard.Update(e.ctx(34), resource, func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), e.sql("INSERT INTO accounts (id, balance, last_token) VALUES (42, 100, "+none+")"))
				return err
			}))

			require.Equal(t, []error{guard.ErrStale}, outcomes(e.accounts.Update(e.ctx(33), 42, someone)))
			own, err := e.accounts.Fence(e.ctx(33), 42)
			require.NoError(t, err)
			set := e.sql("UPDATE accounts AS a SET writer = 'stale', " + own.Set("a", 1) + " WHERE " + own.Where("a", 1))
			tag, err := e.pool.Exec(t.Context(), set, own.Args()...)
			require.NoError(t, err)
			require.Zero(t, tag.RowsAffected())
			require.Equal(t, []error{guard.ErrStale}, outcomes(e.accounts.Explain(e.ctx(33), 42)))
			require.Equal(t, []error{guard.ErrClaimFirst}, outcomes(e.accounts.Explain(e.ctx(34), 42)))
			require.Empty(t, e.writer())

			naive := e.sql("UPDATE accounts SET writer = 'stale' WHERE id = 42 AND (coalesce(last_token, 0) < 33 OR last_token = 33 AND last_holder = 'h33')")
			tag, err = e.pool.Exec(t.Context(), naive)
			require.NoError(t, err)
			require.Equal(t, int64(1), tag.RowsAffected(), "the twin, to whom no mark is the least, must let the stale in")

			require.NoError(t, e.accounts.Update(e.ctx(34), 42, sqlguard.Set{{"writer", "34"}}))
			require.Equal(t, "34 h34", e.row())
			require.Equal(t, "34", e.writer())
		})
	}
	t.Run("is claimed by its first update where nobody has claimed it", func(t *testing.T) {
		t.Parallel()
		e := newRows(t)
		e.exec("UPDATE accounts SET last_token = 0, last_holder = ''")
		require.NoError(t, e.accounts.Update(e.ctx(33), 42, someone))
		require.Equal(t, "33 h33", e.row())
		require.Equal(t, "33 h33", e.mark(resource))
	})
}
