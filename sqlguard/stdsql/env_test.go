package stdsql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/subprocess"
	"github.com/fencepost/fencepost/internal/test/leaktest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/internal/tokenctx"
	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token"
)

func TestMain(m *testing.M) {
	subprocess.Serve(roles)
	_ = mysql.SetLogger(&mysql.NopLogger{}) // do not log connections that a test ends
	testenv.AtOnce(6)                       // most of the time they wait for servers and timeouts
	leaktest.Main(m)
}

const account = "account/42"

// envs are the kinds of databases. Every test of a Guard holds on each.
var envs = []func(t *testing.T) *database{newPostgres, newMySQL, newSQLite}

// onEach runs a test on a database of each kind.
func onEach(t *testing.T, test func(t *testing.T, db *database)) {
	t.Helper()
	for i, name := range []string{"PostgreSQL", "MariaDB", "SQLite"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, envs[i](t))
		})
	}
}

// database has the marks, and an account with the balance 100.
type database struct {
	*sql.DB
	driver, dsn string
	dialect     stdsql.Dialect
	schema      string
	marks       string // name of the table of marks
	trust       bool   // DangerouslyTrustEngine of the guards
}

// made creates the tests' tables.
func (db *database) made(t *testing.T, serial string) *database {
	t.Helper()
	db.DB = db.connect(t)
	run(t, db, "CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL)")
	run(t, db, "CREATE TABLE ledger (seq "+serial+" PRIMARY KEY, resource VARCHAR(200), number BIGINT, holder VARCHAR(200))")
	run(t, db, "INSERT INTO accounts VALUES (42, 100)")
	return db
}

// connect returns another pool.
func (db *database) connect(t *testing.T) *sql.DB {
	t.Helper()
	return connect(t, db.driver, db.dsn)
}

func connect(t *testing.T, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

func (db *database) guard() *stdsql.Guard { return db.over(db.DB) }

// stores returns a function that returns empty stores for the checks of t. The checks
// share one database, since creating one takes longer than most checks.
func stores(t *testing.T, open func(t *testing.T) *database) func(check *testing.T) guard.Store {
	var mu sync.Mutex
	var free []*database
	return func(check *testing.T) guard.Store {
		mu.Lock()
		defer mu.Unlock()
		if len(free) == 0 {
			free = append(free, open(t))
		}
		db := free[len(free)-1]
		free = free[:len(free)-1]
		check.Cleanup(func() {
			db.forget(t)
			mu.Lock()
			defer mu.Unlock()
			free = append(free, db)
		})
		return db.guard()
	}
}

// forget deletes all marks.
func (db *database) forget(t *testing.T) { t.Helper(); run(t, db, "DELETE FROM "+db.marks) }

// idle is longer than any test, so that no session is ended on a slow machine.
const idle = time.Hour

// over returns a guard over another pool.
func (db *database) over(pool *sql.DB) *stdsql.Guard {
	return &stdsql.Guard{DB: pool, Dialect: db.dialect, Schema: db.schema, IdleTimeout: idle, DangerouslyTrustEngine: db.trust}
}

// notEvicted repeats an attempt whose own session was ended by the bound, because the
// machine was slow.
func notEvicted(attempt func() error) (err error) {
	for {
		if err = attempt(); !errors.Is(err, guard.ErrEvicted) {
			return err
		}
	}
}

// update is Update of a guard with default settings.
func (db *database) update(ctx context.Context, fn func(tx *sql.Tx) error) error {
	return db.guard().Update(ctx, account, fn)
}

func (db *database) claim(t *testing.T, toks ...token.Token) {
	t.Helper()
	for _, tok := range toks {
		require.NoError(t, db.guard().Admit(t.Context(), tok))
	}
}

func (db *database) mark(t *testing.T, resource string) (m guard.Mark) {
	t.Helper()
	literal := fmt.Sprintf("'%s'", resource)
	row := db.QueryRowContext(t.Context(), "SELECT number, holder FROM "+db.marks+" WHERE resource = "+literal)
	if err := row.Scan(&m.Number, &m.Holder); err != sql.ErrNoRows {
		require.NoError(t, err)
	}
	return m
}

func tok(number int64, holder string) token.Token {
	return token.Token{Resource: account, Number: number, Holder: holder}
}

// holding returns a context with a token of the account.
func holding(t *testing.T, number int64, holder string) context.Context {
	t.Helper()
	return token.NewContext(t.Context(), tok(number, holder))
}

// querier is a pool, a connection or a transaction.
type querier = stdsql.Tx

func run(t *testing.T, q querier, query string, args ...any) {
	t.Helper()
	_, err := q.ExecContext(t.Context(), query, args...)
	require.NoError(t, err)
}

// one returns the one value that a query returns.
func one[T any](t *testing.T, q querier, query string) (value T) {
	t.Helper()
	require.NoError(t, q.QueryRowContext(t.Context(), query).Scan(&value))
	return value
}

func balance(t *testing.T, q querier) int {
	t.Helper()
	got, err := read(t.Context(), q)
	require.NoError(t, err)
	return got
}

func read(ctx context.Context, q querier) (balance int, err error) {
	err = q.QueryRowContext(ctx, "SELECT balance FROM accounts WHERE id = 42").Scan(&balance)
	return balance, err
}

func write(ctx context.Context, q querier, balance int) error {
	_, err := q.ExecContext(ctx, fmt.Sprintf("UPDATE accounts SET balance = %d WHERE id = 42", balance))
	return err
}

// add is a read-modify-write.
func add(ctx context.Context, amount int) func(tx *sql.Tx) error {
	return func(tx *sql.Tx) error {
		balance, err := read(ctx, tx)
		if err != nil {
			return err
		}
		return write(ctx, tx, balance+amount)
	}
}

// record writes a token to the ledger.
func record(t *testing.T, tok token.Token) func(tx *sql.Tx) error {
	return func(tx *sql.Tx) error {
		_, err := tx.ExecContext(t.Context(), fmt.Sprintf("INSERT INTO ledger (resource, number, holder) VALUES ('%s', %d, '%s')", tok.Resource, tok.Number, tok.Holder))
		return err
	}
}

// inTx returns a transaction that the test begins and ends without the guard.
func inTx(t *testing.T, db interface {
	BeginTx(ctx context.Context, opts *sql.TxOptions) (*sql.Tx, error)
}, fn func(tx *sql.Tx) error) error {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer tx.Rollback()
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// newPostgres creates a schema, over pgx/stdlib.
func newPostgres(t *testing.T) *database {
	t.Helper()
	_, schema := testenv.Postgres(t)
	server, err := url.Parse(testenv.PostgresURL(t))
	require.NoError(t, err)
	settings := server.Query()
	settings.Set("search_path", schema)
	server.RawQuery = settings.Encode()
	db := &database{driver: "pgx", dsn: server.String(), dialect: stdsql.Postgres, schema: schema, marks: "marks"}
	return db.made(t, "BIGINT GENERATED ALWAYS AS IDENTITY")
}

// setting returns the DSN with a setting for all sessions.
func (db *database) setting(t *testing.T, name, value string) string {
	t.Helper()
	if db.dialect == stdsql.MySQL {
		config, err := mysql.ParseDSN(db.dsn)
		require.NoError(t, err)
		if config.Params == nil {
			config.Params = map[string]string{}
		}
		config.Params[name] = value
		return config.FormatDSN()
	}
	server, err := url.Parse(db.dsn)
	require.NoError(t, err)
	settings := server.Query()
	settings.Set(name, value)
	server.RawQuery = settings.Encode()
	return server.String()
}

// awaitWaiting returns when one session waits for another's lock, in a statement that
// names the marks with their schema. MariaDB's innodb_trx shows that too, but is not
// updated while it is read more than ten times a second.
func (db *database) awaitWaiting(t *testing.T) {
	t.Helper()
	query := "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%\"" + db.schema + "\".%'"
	if db.dialect == stdsql.MySQL {
		query = "SELECT count(*) FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID() " +
			"AND command = 'Query' AND info LIKE '%fencepost_marks%' AND time_ms > 50"
	}
	db.eventually(t, query, func(sessions int) bool { return sessions > 0 })
}

// eventually returns when is is true for the result of a query.
func (db *database) eventually(t *testing.T, query string, is func(count int) bool) {
	t.Helper()
	require.Eventually(t, func() bool { return is(one[int](t, db, query)) }, hang, 5*time.Millisecond)
}

// hang bounds calls that hang.
const hang = 2 * time.Minute

// newMySQL creates a database on MariaDB.
func newMySQL(t *testing.T) *database {
	t.Helper()
	db := &database{driver: "mysql", dsn: testenv.MariaDB(t), dialect: stdsql.MySQL, marks: "fencepost_marks"}
	db.dsn = db.setting(t, "innodb_lock_wait_timeout", "3600") // longer than any test
	require.NoError(t, migrations.Set{Dialect: migrations.MySQL}.Up(t.Context(), connect(t, "mysql", db.dsn)))
	return db.made(t, "BIGINT AUTO_INCREMENT")
}

const (
	longBusyTimeout = "_pragma=busy_timeout(3600000)" // longer than any test
	noBusyTimeout   = "_pragma=busy_timeout(0)"
	wal             = "_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)"
	rollback        = "_pragma=journal_mode(DELETE)&_pragma=synchronous(OFF)"
)

func dsn(file, settings string) string { return "file:" + filepath.ToSlash(file) + "?" + settings }

// newFile creates a SQLite file with the tables, as for newSQLite.
func newFile(t *testing.T, settings string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "test.db")
	sqliteAt(t, dsn(file, settings))
	return file
}

func sqliteAt(t *testing.T, dsn string) *database {
	t.Helper()
	require.NoError(t, migrations.Set{Dialect: migrations.SQLite}.Up(t.Context(), connect(t, "sqlite", dsn)))
	db := &database{driver: "sqlite", dsn: dsn, dialect: stdsql.SQLite, marks: "fencepost_marks"}
	return db.made(t, "INTEGER")
}

// newSQLite creates a database whose writers wait for each other.
func newSQLite(t *testing.T) *database {
	t.Helper()
	return sqliteAt(t, dsn(filepath.Join(t.TempDir(), "test.db"), longBusyTimeout+"&"+wal))
}

// onSQLite returns a pool over a file from newFile.
func onSQLite(t *testing.T, file, settings string) *database {
	t.Helper()
	pool := dsn(file, settings)
	return &database{DB: connect(t, "sqlite", pool), driver: "sqlite", dsn: pool, dialect: stdsql.SQLite, marks: "fencepost_marks"}
}

// databaseFile returns the file of a pool.
func databaseFile(t *testing.T, db querier) string {
	t.Helper()
	return one[string](t, db, "SELECT file FROM pragma_database_list")
}

// mintedToken returns the token of a Mint's context.
func mintedToken(ctx context.Context, err error) (token.Token, error) {
	return tokenctx.Entries[token.Token](ctx).Token, err
}
