package pausetest

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// newAccounts creates a table with one account for each case, with a balance of 100, and
// returns its quoted name.
func newAccounts(t *testing.T, pool *pgxpool.Pool, schema string) (table string) {
	table = pgx.Identifier{schema, "accounts"}.Sanitize()
	_, err := pool.Exec(t.Context(), "CREATE TABLE "+table+" (id int PRIMARY KEY, balance int NOT NULL)")
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), "INSERT INTO "+table+" SELECT id, 100 FROM generate_series(0, $1) id", 2*len(writePaths))
	require.NoError(t, err)
	return table
}

// account is one row of the table.
type account struct {
	id       int
	resource string
	pool     *pgxpool.Pool
	selects  string
	write    string
}

func newAccount(pool *pgxpool.Pool, table string, id int) account {
	return account{
		id:       id,
		resource: fmt.Sprintf("account/%d", id),
		pool:     pool,
		selects:  fmt.Sprintf("SELECT balance FROM %s WHERE id = %d", table, id),
		write:    fmt.Sprintf("UPDATE %s SET balance = $1 WHERE id = %d", table, id),
	}
}

func (a account) balance(t *testing.T) (balance int) {
	require.NoError(t, a.pool.QueryRow(t.Context(), a.selects).Scan(&balance))
	return balance
}
