package process_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/sqlguard"
)

const (
	resource = "account/42"
	ttl      = 50 * time.Millisecond
	// computed is the step between the read and what writes.
	computed = "computed"
)

// newLedger makes a table with one row in a schema of its own.
func newLedger(t *testing.T) (conf, *pgxpool.Pool) {
	t.Helper()
	pool, schema := testenv.Postgres(t)
	_, prefix := testenv.Redis(t)
	table := pgx.Identifier{schema, "accounts"}.Sanitize()
	_, err := pool.Exec(t.Context(), "CREATE TABLE "+table+" (id text PRIMARY KEY, units int NOT NULL)")
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), "INSERT INTO "+table+" VALUES ($1, 0)", resource)
	require.NoError(t, err)
	return conf{
		Postgres: testenv.PostgresURL(t), Schema: schema, Redis: testenv.RedisURL(t), Prefix: prefix,
		Idle: 5 * time.Second, // a busy machine is idle, too
	}, pool
}

// ledger counts units in a row. Each unit reads, computes, and writes what it
// has computed.
type ledger struct {
	pool          *pgxpool.Pool
	fence         *sqlguard.Guard
	reads, writes string
	adds, marks   string
}

func ledgerOf(c conf, pool *pgxpool.Pool) *ledger {
	table := pgx.Identifier{c.Schema, "accounts"}.Sanitize()
	return &ledger{
		pool: pool, fence: &sqlguard.Guard{DB: pool, Schema: c.Schema, Idle: c.Idle},
		reads:  "SELECT units FROM " + table + " WHERE id = $1",
		marks:  "SELECT number, holder FROM " + pgx.Identifier{c.Schema, "marks"}.Sanitize() + " WHERE resource = $1",
		adds:   "UPDATE " + table + " SET units = units + 1 WHERE id = $1",
		writes: "UPDATE " + table + " SET units = $2 WHERE id = $1",
	}
}

func (l *ledger) Count(ctx context.Context) (units int, err error) {
	err = l.pool.QueryRow(ctx, l.reads, resource).Scan(&units)
	return units, err
}

// mark is what the guard has admitted.
func (l *ledger) mark(ctx context.Context) (m guard.Mark, err error) {
	err = l.pool.QueryRow(ctx, l.marks, resource).Scan(&m.Number, &m.Holder)
	return m, err
}
