package acknowledged_test

import (
	"context"
	_ "embed"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

//go:embed accounts.sql
var accountsSQL string

// in puts a schema's name into text.
func in(schema, text string) string {
	return strings.ReplaceAll(text, "{schema}", pgx.Identifier{schema}.Sanitize())
}

// open makes the rows of all cells, each worth nothing.
func open(t *testing.T, pool *pgxpool.Pool, schema string, all []cell) {
	t.Helper()
	_, err := pool.Exec(t.Context(), in(schema, accountsSQL))
	require.NoError(t, err)
	for _, c := range all {
		_, err := pool.Exec(t.Context(), in(schema, "INSERT INTO {schema}.accounts (id) SELECT unnest($1::text[])"), c.keys())
		require.NoError(t, err)
	}
}

// ledger is what the database remembers of a row.
type ledger struct {
	value int
	times map[string]int // that each unit was applied
}

func read(ctx context.Context, pool *pgxpool.Pool, schema, key string) (ledger, error) {
	l := ledger{times: map[string]int{}}
	err := pool.QueryRow(ctx, in(schema, selectSQL), key).Scan(&l.value)
	if err != nil {
		return l, err
	}
	applied, err := pool.Query(ctx, in(schema, "SELECT unit FROM {schema}.increments WHERE account = $1"), key)
	if err != nil {
		return l, err
	}
	units, err := pgx.CollectRows(applied, pgx.RowTo[string])
	for _, unit := range units {
		l.times[unit]++
	}
	return l, err
}
