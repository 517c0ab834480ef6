package replicas_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// ledger is what the database remembers: the balance of each account, and each
// write to it, in the order in which they were applied: a write has the account's
// row when it enters itself.
type ledger struct {
	creates, opens       string
	reads, writes, tells string
}

func ledgerOf(schema string) ledger {
	accounts, entries := pgx.Identifier{schema, "accounts"}.Sanitize(), pgx.Identifier{schema, "entries"}.Sanitize()
	return ledger{
		creates: "CREATE TABLE " + accounts + " (id text PRIMARY KEY, balance int NOT NULL);" +
			"CREATE TABLE " + entries + " (seq bigserial PRIMARY KEY, account text NOT NULL, id text NOT NULL, number bigint NOT NULL);" +
			"CREATE INDEX ON " + entries + " (account)",
		opens: "INSERT INTO " + accounts + " SELECT n, 0 FROM generate_series($1::int, $2::int) n",
		reads: "SELECT balance FROM " + accounts + " WHERE id = $1",
		writes: "WITH changed AS (UPDATE " + accounts + " SET balance = $2 WHERE id = $1 RETURNING id)" +
			" INSERT INTO " + entries + " (account, id, number) SELECT id, $3, $4 FROM changed",
		tells: "SELECT a.balance, e.id, e.number FROM " + accounts + " a JOIN " + entries + " e ON e.account = a.id" +
			" WHERE a.id = $1 ORDER BY e.seq",
	}
}

// page is what the ledger has of one account that was written to.
type page struct {
	balance int
	times   map[string]int // how often each write was applied
	falls   int            // applied under a number below one before
}

func (l ledger) look(ctx context.Context, t *testing.T, pool *pgxpool.Pool, account string) page {
	t.Helper()
	p := page{times: map[string]int{}}
	rows, err := pool.Query(ctx, l.tells, account)
	require.NoError(t, err)
	var (
		id          string
		number, top int64
	)
	_, err = pgx.ForEachRow(rows, []any{&p.balance, &id, &number}, func() error {
		p.times[id]++
		if number < top {
			p.falls++
		}
		top = max(top, number)
		return nil
	})
	require.NoError(t, err)
	return p
}
