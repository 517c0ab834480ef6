package stdsql_test

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
)

func TestABusyDatabaseIsRetryable(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string]string{
		"at the admission": hasty + "&" + wal,
		"at BEGIN":         hasty + "&_txlock=immediate&" + wal,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := newFile(t, wal)
			db, g := onSQLite(t, file, patient), onSQLite(t, file, settings).guard()
			ctx := holding(t, 33, "a")
			attempt := map[string]func() error{
				"Update": func() error { return g.Update(ctx, account, add(ctx, 10)) },
				"Admit":  func() error { return g.Admit(ctx, tok(33, "a")) },
			}
			for name, run := range attempt {
				require.NoError(t, inTx(t, db, func(tx *sql.Tx) error {
					_, err := tx.ExecContext(ctx, "INSERT INTO ledger (number) VALUES (1)")
					require.NoError(t, err)
					err = run()
					require.ErrorIs(t, err, guard.ErrRetryable, name)
					require.False(t, guard.Refusal(err))
					return nil
				}))
				require.NoError(t, run(), "run again, it goes through")
			}
			require.Equal(t, 110, balance(t, db))
		})
	}
}

func TestWhatFnFindsBusyIsRetryable(t *testing.T) {
	t.Parallel()
	db := newSQLite(t)
	elsewhere := onSQLite(t, newFile(t, wal), hasty)
	ctx := holding(t, 33, "a")
	require.NoError(t, inTx(t, elsewhere, func(tx *sql.Tx) error {
		require.NoError(t, write(ctx, tx, 0))
		err := db.update(ctx, func(*sql.Tx) error { return write(ctx, elsewhere, 1) })
		require.ErrorIs(t, err, guard.ErrRetryable)
		return nil
	}))
}
