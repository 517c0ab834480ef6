package paused

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// accounts is a table with one row, the account 42 with a balance of 100.
type accounts struct {
	pool           *pgxpool.Pool
	selects, write string
}

func newAccounts(t *testing.T, pool *pgxpool.Pool, schema string) accounts {
	table := pgx.Identifier{schema, "accounts"}.Sanitize()
	_, err := pool.Exec(t.Context(), "CREATE TABLE "+table+" (id int PRIMARY KEY, balance int NOT NULL)")
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), "INSERT INTO "+table+" VALUES (42, 100)")
	require.NoError(t, err)
	return accounts{
		pool:    pool,
		selects: "SELECT balance FROM " + table + " WHERE id = 42",
		write:   "UPDATE " + table + " SET balance = $1 WHERE id = 42",
	}
}

func (a accounts) balance(t *testing.T) (balance int) {
	require.NoError(t, a.pool.QueryRow(t.Context(), a.selects).Scan(&balance))
	return balance
}
