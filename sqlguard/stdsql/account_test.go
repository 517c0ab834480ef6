package stdsql_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// querier is a pool, a connection or a transaction.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

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

// inTx is a transaction that somebody else begins and ends.
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
