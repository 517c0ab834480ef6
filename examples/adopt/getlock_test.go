package adopt_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/examples/adopt"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/simulations/sqlpoint"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
)

// The server is the test's own: a name of GET_LOCK belongs to the whole server.
func TestGetLockSurvivesThePause(t *testing.T) {
	t.Parallel()
	config, err := mysql.ParseDSN(testenv.OwnMariaDB(t))
	require.NoError(t, err)
	config.Logger = &mysql.NopLogger{} // a killed session is expected
	admin := overMySQL(t, config)
	_, err = admin.ExecContext(t.Context(), "CREATE DATABASE shop")
	require.NoError(t, err)
	config.DBName = "shop"
	connector, err := mysql.NewConnector(config)
	require.NoError(t, err)
	db := sql.OpenDB(sqlpoint.Wrap(connector))
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	require.NoError(t, migrations.Set{Dialect: migrations.MySQL}.Up(t.Context(), db))
	for _, statement := range []string{"CREATE TABLE accounts (id int PRIMARY KEY, balance int NOT NULL)", "INSERT INTO accounts VALUES (42, 100)"} {
		_, err := db.ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}

	locks := overMySQL(t, config)
	locks.SetMaxIdleConns(0)
	fence := &stdsql.Guard{DB: db, Dialect: stdsql.MySQL, IdleTimeout: time.Hour}
	simulations.Run(t, simulations.Subject{
		Expire: func(ctx context.Context) error {
			var session sql.NullInt64
			if err := admin.QueryRowContext(ctx, "SELECT IS_USED_LOCK('account/42')").Scan(&session); err != nil || !session.Valid {
				return err
			}
			_, err := admin.ExecContext(ctx, "KILL ?", session.Int64)
			if gone := new(mysql.MySQLError); errors.As(err, &gone) && gone.Number == 1094 { // no such session: it has just ended
				return nil
			}
			return err
		},
		Resource: "account/42",
		Do: func(ctx context.Context) error {
			session, err := locks.Conn(ctx)
			if err != nil {
				return err
			}
			defer session.Close()
			return adopt.GetLock(ctx, session, fence, func(tx *sql.Tx) error {
				var balance int64
				if err := tx.QueryRowContext(ctx, "SELECT balance FROM accounts WHERE id = 42").Scan(&balance); err != nil {
					return err
				}
				_, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = ? WHERE id = 42", balance-1)
				return err
			})
		},
		Count: func(ctx context.Context) (int, error) {
			balance, err := balanceOf(ctx, db)
			return 100 - int(balance), err
		},
	})
}

// The limits that docs/adopt.md states, on MariaDB.
func TestNamesOfGetLock(t *testing.T) {
	t.Parallel()
	config, err := mysql.ParseDSN(testenv.OwnMariaDB(t))
	require.NoError(t, err)
	locks := overMySQL(t, config)
	session := func() *sql.Conn {
		conn, err := locks.Conn(t.Context())
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	a, b := session(), session()
	get := func(session *sql.Conn, name string) (granted int, err error) {
		err = session.QueryRowContext(t.Context(), "SELECT GET_LOCK("+name+", 0)").Scan(&granted)
		return granted, err
	}
	for _, name := range []string{"'account/a'", "'account/A'", "REPEAT('n', 192)", "SHA2(REPEAT('n', 200), 256)"} {
		granted, err := get(a, name)
		require.NoError(t, err)
		require.Equal(t, 1, granted, "%s is another lock, and the session keeps the earlier ones", name)
	}
	for name, free := range map[string]int{"'account/a'": 0, "'account/A'": 0, "SHA2(REPEAT('n', 200), 256)": 0, "'ACCOUNT/a'": 1} {
		granted, err := get(b, name)
		require.NoError(t, err)
		require.Equal(t, free, granted, name)
	}
	_, err = get(a, "REPEAT('n', 193)")
	var refused *mysql.MySQLError
	require.ErrorAs(t, err, &refused)
	require.EqualValues(t, 1059, refused.Number)
	var length int
	require.NoError(t, a.QueryRowContext(t.Context(), "SELECT CHAR_LENGTH(SHA2('account/42', 256))").Scan(&length))
	require.Equal(t, 64, length)
}

func overMySQL(t *testing.T, config *mysql.Config) *sql.DB {
	t.Helper()
	connector, err := mysql.NewConnector(config)
	require.NoError(t, err)
	db := sql.OpenDB(connector)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}
