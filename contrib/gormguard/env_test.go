package gormguard_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	"gorm.io/driver/mysql"
	"gorm.io/driver/postgres"
	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
	_ "modernc.org/sqlite"

	"github.com/fencepost/fencepost/contrib/gormguard"
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/simulations/sqlpoint"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token"
)

// idle is an idle timeout that is longer than any test.
const idle = time.Hour

// database is a real database with the marks and the models' tables.
type database struct {
	guard   *stdsql.Guard
	dialect gorm.Dialector
	plain   *gorm.DB // without the Plugin
}

// onEach runs a test on a database of each kind.
func onEach(t *testing.T, test func(t *testing.T, d *database)) {
	t.Helper()
	for name, open := range map[string]func(*testing.T) *database{"PostgreSQL": onPostgres, "MariaDB": onMariaDB, "SQLite": onSQLite} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

func onPostgres(t *testing.T) *database {
	t.Helper()
	config, err := pgx.ParseConfig(testenv.Database(t))
	require.NoError(t, err)
	db := sql.OpenDB(sqlpoint.Wrap(stdlib.GetConnector(*config)))
	d := &database{guard: &stdsql.Guard{DB: db, IdleTimeout: idle}, dialect: postgres.New(postgres.Config{Conn: db})}
	return d.made(t, migrations.Set{})
}

func onMariaDB(t *testing.T) *database {
	t.Helper()
	config, err := driver.ParseDSN(testenv.MariaDB(t))
	require.NoError(t, err)
	config.ParseTime, config.Params = true, map[string]string{"innodb_lock_wait_timeout": "3600"} // longer than any test
	db, err := sql.Open("mysql", config.FormatDSN())
	require.NoError(t, err)
	d := &database{guard: &stdsql.Guard{DB: db, Dialect: stdsql.MySQL, IdleTimeout: idle}, dialect: mysql.New(mysql.Config{Conn: db})}
	return d.made(t, migrations.Set{Dialect: migrations.MySQL})
}

func onSQLite(t *testing.T) *database {
	t.Helper()
	file := filepath.ToSlash(filepath.Join(t.TempDir(), "test.db"))
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(3600000)&_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)")
	require.NoError(t, err)
	d := &database{guard: &stdsql.Guard{DB: db, Dialect: stdsql.SQLite}, dialect: &sqlite.Dialector{Conn: db}}
	return d.made(t, migrations.Set{Dialect: migrations.SQLite})
}

func (d *database) made(t *testing.T, set migrations.Set) *database {
	t.Helper()
	t.Cleanup(func() { require.NoError(t, d.guard.DB.Close()) })
	require.NoError(t, set.Up(t.Context(), d.guard.DB))
	d.plain = d.open(t, gorm.Config{})
	require.NoError(t, d.plain.AutoMigrate(models...))
	d.seed(t)
	return d
}

func (d *database) open(t *testing.T, config gorm.Config) *gorm.DB {
	t.Helper()
	config.Logger = logger.Discard
	db, err := gorm.Open(d.dialect, &config)
	require.NoError(t, err)
	return db
}

// fenced returns a *gorm.DB with the Plugin.
func (d *database) fenced(t *testing.T, config gorm.Config) *gorm.DB {
	t.Helper()
	db := d.open(t, config)
	require.NoError(t, db.Use(&gormguard.Plugin{Guard: d.guard}))
	return db
}

// seed resets the tables before each write.
func (d *database) seed(t *testing.T) {
	t.Helper()
	require.NoError(t, d.plain.WithContext(t.Context()).Transaction(func(tx *gorm.DB) error {
		tx = tx.Session(&gorm.Session{AllowGlobalUpdate: true})
		err := tx.Exec("DELETE FROM customer_notes").Error
		for i := len(models) - 1; i >= 0; i-- {
			err = errors.Join(err, tx.Unscoped().Delete(models[i]).Error)
		}
		for _, rows := range []any{
			[]Account{{ID: 42, Balance: opening}, {ID: 43, Balance: opening}},
			[]User{{42, "42@example.com"}, {43, "43@example.com"}}, []Note{{42, "old"}, {43, "old"}}, []Pair{{ID: 42}, {ID: 43}},
			[]Order{{ID: 42}, {ID: 43}}, []Line{{420, 42, 1}, {430, 43, 1}},
			[]Customer{{ID: 42}, {ID: 43}}, []Wallet{{42, 42, 0}, {43, 43, 0}},
		} {
			err = errors.Join(err, tx.Create(rows).Error)
		}
		return err
	}))
}

// rows returns the contents of all tables as text.
func (d *database) rows(t *testing.T) string {
	t.Helper()
	return d.read(t, "1 = 1")
}

// others returns the rows for which no token is held.
func (d *database) others(t *testing.T) string {
	t.Helper()
	return d.read(t, "id IN (43, 430)")
}

func (d *database) read(t *testing.T, condition string) string {
	t.Helper()
	var text strings.Builder
	for _, model := range models {
		var found []map[string]any
		require.NoError(t, d.plain.WithContext(t.Context()).Unscoped().Model(model).Where(condition).Order("id").Find(&found).Error)
		fmt.Fprintf(&text, "%T %v\n", model, found)
	}
	return text.String()
}

// claim raises the marks to number.
func (d *database) claim(t *testing.T, number int64, resources ...string) {
	t.Helper()
	for _, resource := range resources {
		require.NoError(t, d.guard.Admit(t.Context(), tok(resource, number)))
	}
}

func tok(resource string, number int64) token.Token {
	return token.Token{Resource: resource, Number: number, Holder: fmt.Sprintf("h%d", number)}
}

func holding(t *testing.T, number int64, resources ...string) context.Context {
	t.Helper()
	ctx := t.Context()
	for _, resource := range resources {
		ctx = token.NewContext(ctx, tok(resource, number))
	}
	return ctx
}

// requireStale requires that errors.Is finds the refusal in GORM's error.
func requireStale(t *testing.T, err error) {
	t.Helper()
	require.ErrorIs(t, err, guard.ErrStale)
	require.NotErrorIs(t, err, guard.ErrUnknown)
}
