package gormguard_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
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

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/simulations/sqlpoint"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token"
)

const opening = 1_000_000

// Account writes an Entry before each update, in a hook.
type Account struct {
	ID      int64 `gorm:"autoIncrement:false"`
	Balance int64
}

// Entry is one line of the journal of an account.
type Entry struct {
	ID        int64
	AccountID int64
}

// BeforeUpdate refuses a negative balance after it has written.
func (a *Account) BeforeUpdate(tx *gorm.DB) error {
	if err := tx.Create(&Entry{AccountID: a.ID}).Error; err != nil {
		return err
	}
	if a.Balance < 0 {
		return errNegative
	}
	return nil
}

var errNegative = errors.New("the balance is negative")

// idle is an idle timeout that is longer than any test.
const idle = time.Hour

// database is a real database with the marks and the models' tables.
type database struct {
	guard   *stdsql.Guard
	dialect gorm.Dialector
	plain   *gorm.DB
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
	require.NoError(t, d.plain.AutoMigrate(&Account{}, &Entry{}))
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

// seed resets the tables.
func (d *database) seed(t *testing.T) {
	t.Helper()
	require.NoError(t, d.plain.WithContext(t.Context()).Transaction(func(tx *gorm.DB) error {
		all := tx.Session(&gorm.Session{AllowGlobalUpdate: true})
		return errors.Join(all.Delete(&Account{}).Error, all.Delete(&Entry{}).Error,
			tx.Create([]Account{{ID: 42, Balance: opening}, {ID: 43, Balance: opening}}).Error)
	}))
}

// state returns the balances, and how many entries there are.
func (d *database) state(t *testing.T) string {
	t.Helper()
	var balances []int64
	var entries int64
	db := d.plain.WithContext(t.Context())
	require.NoError(t, db.Model(&Account{}).Order("id").Pluck("balance", &balances).Error)
	require.NoError(t, db.Model(&Entry{}).Count(&entries).Error)
	return fmt.Sprintf("%d and %d, %d entries", balances[0]-opening, balances[1]-opening, entries)
}

func (d *database) marks() string {
	if d.plain.Name() == "postgres" {
		return "fencepost.marks"
	}
	return "fencepost_marks"
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
