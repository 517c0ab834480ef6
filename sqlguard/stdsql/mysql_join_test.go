package stdsql_test

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
)

// hazard G23
func TestMySQLJoinAfterAReadThatWasOvertaken(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, settings string }{
		{"as MariaDB up to 11.5 and MySQL do", "?innodb_snapshot_isolation=OFF"},
		{"as MariaDB does from 11.6 on", "?innodb_snapshot_isolation=ON"},
		{"under SERIALIZABLE", "?tx_isolation=%27SERIALIZABLE%27"},
		{"under READ COMMITTED", "?tx_isolation=%27READ-COMMITTED%27"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := newMySQL(t)
			late := connect(t, "mysql", db.dsn+c.settings)
			db.claim(t, tok(33, "a"))
			older, newer := holding(t, 33, "a"), holding(t, 34, "b")
			var joined error
			err := inTx(t, late, func(tx *sql.Tx) error {
				require.Equal(t, 100, balance(t, tx))
				if c.name == "under SERIALIZABLE" { // whose reads lock what the older one would write
					require.NoError(t, db.guard().Admit(t.Context(), tok(34, "b")))
				} else {
					require.NoError(t, db.update(older, add(older, 50)))
					db.claim(t, tok(34, "b"))
				}
				if joined = db.guard().Join(newer, tx, account); joined != nil {
					return joined
				}
				return add(newer, 10)(tx)
			})
			switch c.name {
			case "under SERIALIZABLE":
				require.NoError(t, err)
				require.Equal(t, 110, balance(t, db))
			case "under READ COMMITTED":
				require.NoError(t, err)
				require.Equal(t, 160, balance(t, db), "each statement sees what there is")
			default:
				require.ErrorIs(t, err, guard.ErrRetryable)
				require.NoError(t, inTx(t, late, func(tx *sql.Tx) error {
					require.NoError(t, db.guard().Join(newer, tx, account))
					return add(newer, 10)(tx)
				}), "run again, it goes through")
				require.Equal(t, 160, balance(t, db))
			}
		})
	}
	t.Run("the twin goes on with what it has read before", func(t *testing.T) {
		t.Parallel()
		db := newMySQL(t)
		db.claim(t, tok(33, "a"))
		older, newer := holding(t, 33, "a"), holding(t, 34, "b")
		require.NoError(t, inTx(t, db, func(tx *sql.Tx) error {
			require.Equal(t, 100, balance(t, tx))
			require.NoError(t, db.update(older, add(older, 50)))
			db.claim(t, tok(34, "b"))
			require.Equal(t, 34, one[int](t, tx, "SELECT number FROM fencepost_marks LOCK IN SHARE MODE"), "it is admitted")
			return add(newer, 10)(tx)
		}))
		require.Equal(t, 110, balance(t, db), "the twin must lose the older one's write")
	})
}

// hazard G24
func TestMySQLAnAdmissionEndsWithItsSavepoint(t *testing.T) {
	t.Parallel()
	db := newMySQL(t)
	db.claim(t, tok(33, "a"))
	zombie, successor := holding(t, 33, "a"), holding(t, 34, "b")
	require.NoError(t, inTx(t, db, func(tx *sql.Tx) error {
		run(t, tx, "SAVEPOINT s")
		require.NoError(t, db.guard().Join(zombie, tx, account))
		run(t, tx, "ROLLBACK TO s")
		require.NoError(t, db.update(successor, add(successor, 10)), "nobody is in any more")
		return write(zombie, tx, 0)
	}))
	require.Equal(t, 0, balance(t, db), "the twin must overwrite its successor")

	next := make(chan error, 1)
	require.NoError(t, inTx(t, db, func(tx *sql.Tx) error {
		require.NoError(t, db.guard().Join(successor, tx, account))
		run(t, tx, "SAVEPOINT s")
		run(t, tx, "ROLLBACK TO s")
		go func() { next <- db.guard().Admit(t.Context(), tok(35, "c")) }()
		db.awaitWaiting(t)
		return write(successor, tx, 50)
	}), "outside of the savepoint")
	require.NoError(t, <-next)
	require.Equal(t, 50, balance(t, db))
}
