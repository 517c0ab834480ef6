package rowguard_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/sqlguard/rowguard"
	"github.com/fencepost/fencepost/token"
)

// resource is that of row 42 of accounts.
const resource = "account/42"

var (
	x     = rowguard.Set{"writer": "x"} // what most writes set
	modes = []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	}
)

// env is a migrated schema with a table of accounts that carry their own mark, initially
// #1, and its Table. Its methods replace "fence." in statements with the schema's name.
type env struct {
	*rowguard.Table
	t      testing.TB
	pool   *pgxpool.Pool
	schema string
	base   context.Context // has a deadline that ends only a hang
}

func newEnv(t testing.TB) env {
	t.Helper()
	pool, schema := testenv.Postgres(t)
	base, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	e := env{t: t, pool: pool, schema: schema, base: base}
	// On a slow machine a transaction may be idle for longer than the default.
	e.Table = &rowguard.Table{Guard: &sqlguard.Guard{DB: pool, Schema: schema, IdleTimeout: time.Hour}, Name: pgx.Identifier{schema, "accounts"}, Prefix: "account/"}
	pgtest.Accounts(t, pool, schema, 42, 43)
	e.exec("SELECT fence.add_mark_columns('fence.accounts')")
	e.exec("UPDATE fence.accounts SET last_token = 1, last_holder = 'h1'")
	return e
}

// inEnv runs a case in an env of its own, in parallel with other cases.
func inEnv(t *testing.T, name string, test func(t *testing.T, e env)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		test(t, newEnv(t))
	})
}

// inEveryMode runs a test in each of the modes, in parallel.
func inEveryMode(t *testing.T, modes []pgx.QueryExecMode, test func(t *testing.T, mode pgx.QueryExecMode)) {
	t.Helper()
	for _, mode := range modes {
		t.Run("in mode "+mode.String(), func(t *testing.T) {
			t.Parallel()
			test(t, mode)
		})
	}
}

// over returns a copy of the Table over another database, with changes of its Guard.
func (e env) over(db sqlguard.DB, changes ...func(*sqlguard.Guard)) *rowguard.Table {
	rows, g := *e.Table, *e.Guard
	rows.Guard, g.DB = &g, db
	for _, change := range changes {
		change(&g)
	}
	return &rows
}

func (e env) protected() *rowguard.Table {
	rows := *e.Table
	rows.Protected = true
	return &rows
}

// keyed creates the table ledger, with a key k of this type and no rows, and returns its
// Table.
func (e env) keyed(db sqlguard.DB, column, prefix string) *rowguard.Table {
	e.exec("DROP TABLE IF EXISTS fence.ledger")
	e.exec("CREATE TABLE fence.ledger (k " + column + " UNIQUE, writer text, last_token bigint, last_holder text)")
	rows := e.over(db)
	rows.Name, rows.Key, rows.Prefix = pgx.Identifier{e.schema, "ledger"}, "k", prefix
	return rows
}

// connect returns a pool of that many connections.
func (e env) connect(size int32, mode pgx.QueryExecMode, settings ...string) *pgxpool.Pool {
	e.t.Helper()
	config := e.pool.Config()
	config.MaxConns, config.ConnConfig.DefaultQueryExecMode = size, mode
	for i := 0; i < len(settings); i += 2 {
		config.ConnConfig.RuntimeParams[settings[i]] = settings[i+1]
	}
	pool, err := pgxpool.NewWithConfig(e.t.Context(), config)
	require.NoError(e.t, err)
	e.t.Cleanup(pool.Close)
	return pool
}

// begin returns a transaction, which is rolled back at the end of the test.
func (e env) begin(level pgx.TxIsoLevel) pgx.Tx {
	e.t.Helper()
	tx, err := e.pool.BeginTx(e.base, pgx.TxOptions{IsoLevel: level})
	require.NoError(e.t, err)
	e.t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(e.base)) })
	return tx
}

func (e env) sql(text string) string {
	return strings.ReplaceAll(text, "fence.", pgx.Identifier{e.schema}.Sanitize()+".")
}

// execer is a pool, a connection or a transaction.
type execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// run returns how many rows a hand-written statement has written.
func (e env) run(on execer, text string, args ...any) int64 {
	e.t.Helper()
	tag, err := on.Exec(e.base, e.sql(text), args...)
	require.NoError(e.t, err, text)
	return tag.RowsAffected()
}

func (e env) exec(text string, args ...any) int64 { e.t.Helper(); return e.run(e.pool, text, args...) }

// trigger makes body run for each row before an event on accounts.
func (e env) trigger(event, body string) {
	e.t.Helper()
	e.exec("CREATE FUNCTION fence.tg() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN " + body + " END $$; " +
		"CREATE TRIGGER tg BEFORE " + event + " ON fence.accounts FOR EACH ROW EXECUTE FUNCTION fence.tg()")
}

// get returns the one value of a query.
func get[T any](e env, text string, args ...any) (value T) {
	e.t.Helper()
	require.NoError(e.t, e.pool.QueryRow(e.t.Context(), e.sql(text), args...).Scan(&value))
	return value
}

// row returns the mark that account 42 carries, and its writer.
func (e env) row() string {
	e.t.Helper()
	return get[string](e, "SELECT coalesce((SELECT concat_ws(' ', last_token, last_holder, nullif(writer, '')) FROM fence.accounts WHERE id = 42), 'gone')")
}

func (e env) writer() string {
	e.t.Helper()
	return get[string](e, "SELECT writer FROM fence.accounts WHERE id = 42")
}

// mark returns the mark of account 42 in the marks table.
func (e env) mark() string {
	e.t.Helper()
	return get[string](e, "SELECT coalesce((SELECT number || ' ' || holder FROM fence.marks WHERE resource = $1), '')", resource)
}

// ctx returns a context with the token of account 42 with that number.
func (e env) ctx(number int64) context.Context { return token.NewContext(e.base, tokenOf(number)) }

// as returns a token, of holder "h<number>", and a context with it.
func (e env) as(number int64, resource ...any) (context.Context, token.Token) {
	tok := token.Token{Resource: fmt.Sprint(resource...), Number: number, Holder: fmt.Sprintf("h%d", number)}
	return token.NewContext(e.base, tok), tok
}

// claimed raises both marks of account 42 with the tokens, in order.
func (e env) claimed(numbers ...int64) {
	e.t.Helper()
	for _, n := range numbers {
		require.NoError(e.t, e.Claim(e.base, tokenOf(n)))
	}
}

// waiting returns when n statements on this schema wait for a lock.
func (e env) waiting(n int) {
	e.t.Helper()
	pgtest.AwaitLockWaiters(e.t.(*testing.T), e.pool, e.schema, n)
}

// later makes a call in a goroutine of its own, and returns a function that waits for its error.
func (e env) later(call func() error) (wait func() error) {
	e.t.Helper()
	return pgtest.Later(e.t.(*testing.T), call)
}

// outcomes returns the guard's outcomes that err has.
func outcomes(err error) (found []error) {
	for _, outcome := range []error{guard.ErrStale, guard.ErrRetryable, guard.ErrUnknown, guard.ErrEvicted, guard.ErrClaimFirst, guard.ErrRowNotFound, guard.ErrUnfenced} {
		if errors.Is(err, outcome) {
			found = append(found, outcome)
		}
	}
	return found
}
