package stdsql_test

import (
	"database/sql"
	"fmt"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// hazard G23
func TestMySQLJoinAfterAReadThatWasOvertaken(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, setting, value string }{
		{"as MariaDB up to 11.5 and MySQL do", "innodb_snapshot_isolation", "OFF"},
		{"as MariaDB does from 11.6 on", "innodb_snapshot_isolation", "ON"},
		{"under SERIALIZABLE", "tx_isolation", "'SERIALIZABLE'"},
		{"under READ COMMITTED", "tx_isolation", "'READ-COMMITTED'"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := newMySQL(t)
			late := connect(t, "mysql", db.setting(t, c.setting, c.value))
			db.claim(t, tok(33, "a"))
			older, newer := holding(t, 33, "a"), holding(t, 34, "b")
			var joined error
			err := inTx(t, late, func(tx *sql.Tx) error {
				require.Equal(t, 100, balance(t, tx))
				if c.name == "under SERIALIZABLE" { // its reads lock what the older writer would write
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
	t.Run("the twin continues with its earlier read", func(t *testing.T) {
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
		require.NoError(t, db.update(successor, add(successor, 10)), "no writer is left")
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

func TestMySQLASuccessorWaitsAsLongAsTheServerLetsIt(t *testing.T) {
	t.Parallel()
	db := newMySQL(t)
	db.claim(t, tok(33, "a"))
	older, newer := holding(t, 33, "a"), holding(t, 34, "b")
	impatient := db.over(connect(t, "mysql", db.setting(t, "innodb_lock_wait_timeout", "1")))
	require.NoError(t, db.update(older, func(tx *sql.Tx) error {
		updated := make(chan error, 1)
		go func() { updated <- impatient.Update(newer, account, add(newer, 10)) }()
		for _, err := range []error{impatient.Admit(newer, tok(34, "b")), <-updated} {
			require.ErrorIs(t, err, guard.ErrRetryable)
			require.ErrorContains(t, err, "Error 1205")
			require.False(t, guard.IsRefusal(err))
		}
		return add(older, 10)(tx)
	}))
	require.NoError(t, impatient.Update(newer, account, add(newer, 10)), "run again, it goes through")
	require.Equal(t, 120, balance(t, db))
}

// A stale holder that retries in a loop blocks no other session.
func TestMySQLTheStaleDoNotWait(t *testing.T) {
	t.Parallel()
	db := newMySQL(t)
	db.claim(t, tok(34, "b"))
	zombie, newer := holding(t, 33, "a"), holding(t, 34, "b")
	require.NoError(t, db.update(newer, func(tx *sql.Tx) error {
		require.ErrorIs(t, db.guard().Admit(t.Context(), tok(33, "a")), guard.ErrStale)
		require.ErrorIs(t, db.update(zombie, add(zombie, 10)), guard.ErrStale)
		return add(newer, 10)(tx)
	}))
	require.Equal(t, 110, balance(t, db))
}

// innodb_rollback_on_timeout is off by default: only the statement is rolled back, and
// the transaction stays open.
func TestMySQLALockWaitTimeoutRollsBackTheStatement(t *testing.T) {
	t.Parallel()
	db := newMySQL(t)
	run(t, db, "INSERT INTO accounts VALUES (43, 100)")
	g, ctx := db.over(connect(t, "mysql", db.setting(t, "innodb_lock_wait_timeout", "1"))), holding(t, 33, "a")
	other, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer other.Rollback()
	run(t, other, "UPDATE accounts SET balance = 1 WHERE id = 43")
	spend := func(tx *sql.Tx) error {
		require.NoError(t, add(ctx, -10)(tx))
		_, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = 2 WHERE id = 43")
		require.ErrorContains(t, err, "Error 1205")
		return err
	}
	require.ErrorIs(t, g.Update(ctx, account, spend), guard.ErrRetryable)
	require.Equal(t, 100, balance(t, db), "all of it is rolled back")
	require.NoError(t, g.Update(ctx, account, func(tx *sql.Tx) error { _ = spend(tx); return nil }), "fn may go on")
	require.Equal(t, 90, balance(t, db))
}

// Names are bytes, whatever the collations and the connection's character set.
func TestMySQLNamesThatCollationsTakeForTheSame(t *testing.T) {
	t.Parallel()
	db := newMySQL(t)
	run(t, db, "CREATE TABLE twin (resource VARCHAR(200) PRIMARY KEY, holder VARCHAR(200))")
	run(t, db, "INSERT INTO twin VALUES ('account/42', 'worker-A')")
	const same = "SELECT count(*) FROM twin WHERE resource = 'ACCOUNT/42 ' AND holder = 'Worker-a'"
	require.Equal(t, 1, one[int](t, db, same), "the twin must take the one for the other")

	db.claim(t, tok(33, "worker-A"))
	for _, settings := range []string{"", "&charset=latin1", "&charset=utf8mb3", "&interpolateParams=true", "&clientFoundRows=true", "&sql_mode=%27ANSI,NO_BACKSLASH_ESCAPES%27"} {
		g := db.over(connect(t, "mysql", db.dsn+settings))
		for _, holder := range []string{"Worker-a", "worker-A ", "wörker-A"} {
			ctx := holding(t, 33, holder)
			require.ErrorIs(t, g.Update(ctx, account, add(ctx, 1)), guard.ErrCollision, "%s %s", settings, holder)
		}
		for i, name := range []string{"ACCOUNT/42", "account/42 ", "größe", "😀"} {
			tok := token.Token{Resource: name, Number: int64(i + 1), Holder: name}
			ctx := token.NewContext(t.Context(), tok)
			require.NoError(t, g.Update(ctx, name, add(ctx, 1)), "%s %s", settings, name)
			tok.Holder = "another"
			var stale *guard.StaleError
			require.ErrorAs(t, g.Admit(ctx, tok), &stale)
			require.Equal(t, guard.Mark{Number: tok.Number, Holder: name}, stale.Mark, settings)
		}
	}
	require.Equal(t, 5, one[int](t, db, "SELECT count(*) FROM fencepost_marks"))
}

// hazard G6
func TestMySQLARowThatDidNotChangeIsNotMissing(t *testing.T) {
	t.Parallel()
	db := newMySQL(t)
	db.claim(t, tok(33, "a"))
	result, err := db.ExecContext(t.Context(), "UPDATE fencepost_marks SET number = 33 WHERE number <= 33 AND holder = 'a'")
	require.NoError(t, err)
	rows, err := result.RowsAffected()
	require.NoError(t, err)
	require.Zero(t, rows, "the twin, which counts rows, must take its own mark for another token's")
	for range 2 {
		db.claim(t, tok(33, "a"))
		ctx := holding(t, 33, "a")
		require.NoError(t, db.update(ctx, add(ctx, 10)))
	}
	require.Equal(t, 120, balance(t, db))
}

func TestMySQLRightsOfAWriter(t *testing.T) {
	t.Parallel()
	db := newMySQL(t)
	config, err := mysql.ParseDSN(db.dsn)
	require.NoError(t, err)
	config.User, config.Passwd = config.DBName, "secret"
	run(t, db, fmt.Sprintf("CREATE USER '%s' IDENTIFIED BY 'secret'", config.User))
	t.Cleanup(func() { _, _ = db.Exec(fmt.Sprintf("DROP USER '%s'", config.User)) })
	for _, rights := range []string{
		"SELECT, INSERT, UPDATE ON %s.fencepost_marks", "SELECT ON %s.fencepost_floor", "SELECT, UPDATE ON %s.accounts",
	} {
		run(t, db, fmt.Sprintf("GRANT "+rights+" TO '%[1]s'", config.DBName))
	}
	pool := connect(t, "mysql", config.FormatDSN())
	g, ctx := db.over(pool), holding(t, 33, "a")
	require.NoError(t, g.Update(ctx, account, add(ctx, 1)))
	_, err = g.Mint(ctx, account, "b")
	require.NoError(t, err)
	_, err = pool.ExecContext(ctx, "DELETE FROM fencepost_marks")
	require.ErrorContains(t, err, "denied")
	_, err = pool.ExecContext(ctx, "UPDATE fencepost_floor SET number = 0")
	require.ErrorContains(t, err, "denied")
}

func TestMySQLTripsOfAnUpdate(t *testing.T) {
	t.Parallel()
	db := newMySQL(t)
	db.claim(t, tok(33, "a"))
	pool := db.connect(t)
	pool.SetMaxOpenConns(1)
	ctx := holding(t, 33, "a")
	trips := func(do func()) int {
		const questions = "SELECT variable_value FROM information_schema.session_status WHERE variable_name = 'QUESTIONS'"
		before := one[int](t, pool, questions)
		do()
		return one[int](t, pool, questions) - before - 1
	}
	plain := trips(func() { require.NoError(t, inTx(t, pool, add(ctx, 1))) })
	require.Equal(t, 4, plain)
	guarded := db.over(pool)
	update := func() { require.NoError(t, guarded.Update(ctx, account, add(ctx, 1))) }
	require.Equal(t, plain+6, trips(update), "a connection is queried for its engine first")
	require.Equal(t, plain+5, trips(update))
	guarded.IdleTimeout = -1
	require.Equal(t, plain+3, trips(update))

	fresh := db.connect(t)
	fresh.SetMaxOpenConns(1)
	pool = fresh
	join := func() {
		require.NoError(t, inTx(t, fresh, func(tx *sql.Tx) error {
			require.NoError(t, guarded.Join(ctx, tx, account))
			return add(ctx, 1)(tx)
		}))
	}
	require.Equal(t, plain+4, trips(join), "so is a session that others begin transactions in: two trips")
	require.Equal(t, plain+2, trips(join))
}
