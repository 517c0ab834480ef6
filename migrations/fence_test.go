package migrations_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
)

// fence is a migrated schema. Its methods replace "fence." in statements with the
// schema's name.
type fence struct {
	*pgxpool.Pool
	schema string
}

func newFence(t *testing.T) fence {
	t.Helper()
	pool, schema := testenv.Postgres(t)
	return fence{pool, schema}
}

// db is a pool, a connection or a transaction.
type db interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func (f fence) sql(text string) string {
	return strings.ReplaceAll(text, "fence.", pgx.Identifier{f.schema}.Sanitize()+".")
}

func (f fence) exec(ctx context.Context, on db, text string, args ...any) error {
	_, err := on.Exec(ctx, f.sql(text), args...)
	return err
}

// named replaces the names of roles and schemas with names that only this test uses:
// "fence.owner" becomes "fencepost_test_…_owner".
func (f fence) named(text string) string {
	return strings.ReplaceAll(text, "fence.", f.schema+"_")
}

func (f fence) admit(ctx context.Context, on db, resource string, number int64, holder string) error {
	return f.exec(ctx, on, "SELECT fence.admit($1, $2, $3)", resource, number, holder)
}

// get returns the single value of a query.
func get[T any](t *testing.T, f fence, on db, text string, args ...any) T {
	t.Helper()
	var value T
	require.NoError(t, on.QueryRow(t.Context(), f.sql(text), args...).Scan(&value))
	return value
}

// mark returns the mark of a resource.
func (f fence) mark(t *testing.T, resource string) (number int64, holder string) {
	t.Helper()
	row := f.QueryRow(t.Context(), f.sql("SELECT number, holder FROM fence.marks WHERE resource = $1"), resource)
	require.NoError(t, row.Scan(&number, &holder))
	return number, holder
}

// conn opens a connection that the test may close.
func (f fence) conn(t *testing.T) *pgx.Conn {
	t.Helper()
	return connected(t, func(*pgx.ConnConfig) {})
}

// connected opens a connection with settings of its own.
func connected(t *testing.T, set func(config *pgx.ConnConfig)) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(testenv.PostgresURL(t))
	require.NoError(t, err)
	set(config)
	conn, err := pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

// writer opens a connection, and begins a transaction that is admitted.
func (f fence) writer(t *testing.T, resource string, number int64, holder string) *pgx.Conn {
	t.Helper()
	conn := f.conn(t)
	require.NoError(t, f.exec(t.Context(), conn, "BEGIN ISOLATION LEVEL READ COMMITTED"))
	require.NoError(t, f.admit(t.Context(), conn, resource, number, holder))
	return conn
}

func (f fence) begin(t *testing.T, level pgx.TxIsoLevel) pgx.Tx {
	t.Helper()
	tx, err := f.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
	require.NoError(t, err)
	t.Cleanup(func() { tx.Rollback(context.WithoutCancel(t.Context())) })
	return tx
}

// atEnd runs text at the end of the test.
func (f fence) atEnd(t *testing.T, text string) {
	t.Helper()
	t.Cleanup(func() {
		_, err := f.Exec(context.WithoutCancel(t.Context()), text)
		require.NoError(t, err)
	})
}

// blocked waits until conn waits for a lock.
func (f fence) blocked(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	pgtest.Await(t, func() bool { return f.waits(t, conn) })
}

func (f fence) waits(t *testing.T, conn *pgx.Conn) bool {
	t.Helper()
	return get[bool](t, f, f, "SELECT coalesce(wait_event_type, '') = 'Lock' FROM pg_stat_activity WHERE pid = $1", conn.PgConn().PID())
}

// code returns the SQLSTATE of err, or "" if it has none.
func code(err error) string {
	var refusal *pgconn.PgError
	if errors.As(err, &refusal) {
		return refusal.Code
	}
	return ""
}

// refused checks SQLSTATE and the first line of DETAIL.
func refused(t *testing.T, err error, sqlstate, detail string) {
	t.Helper()
	var refusal *pgconn.PgError
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, sqlstate, refusal.Code, "%v", err)
	mark, _, _ := strings.Cut(refusal.Detail, "\n")
	require.Equal(t, detail, mark)
}

// sqlDB opens the fence's server for Up; each connection runs setup first.
func sqlDB(t *testing.T, f fence, setup ...string) *sql.DB {
	t.Helper()
	config := f.Config().ConnConfig
	return opened(t, stdlib.OpenDB(*config, stdlib.OptionAfterConnect(func(ctx context.Context, conn *pgx.Conn) error {
		for _, text := range setup {
			if _, err := conn.Exec(ctx, text); err != nil {
				return err
			}
		}
		return nil
	})))
}
