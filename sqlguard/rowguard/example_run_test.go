package rowguard_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/sqlguard/rowguard"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

// examples has what the examples use: a database with the tables, and a context with the
// token of account 42.
type examples struct{ t *testing.T }

func withExamples(t *testing.T, number int64) examples {
	t.Helper()
	var err error
	pool, err = pgxpool.New(t.Context(), testenv.Database(t))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	db := stdlib.OpenDBFromPool(pool)
	require.NoError(t, migrations.Set{}.Up(t.Context(), db))
	require.NoError(t, db.Close())
	e := examples{t}
	pgtest.Accounts(t, pool, "public", 42, 43)
	e.exec("ALTER TABLE accounts ADD state text NOT NULL DEFAULT 'ready'")
	e.exec("CREATE TABLE jobs (id bigint PRIMARY KEY, state text NOT NULL DEFAULT 'ready', until timestamptz)")
	e.exec("SELECT fencepost.add_mark_columns('accounts'), fencepost.add_mark_columns('jobs')")
	e.exec("CREATE TABLE bills (id bigint, account bigint, amount bigint); CREATE TABLE ledger (account bigint, amount bigint)")
	e.exec("INSERT INTO bills VALUES (7, 42, 30), (8, 43, 99); INSERT INTO jobs VALUES (17), (18)")
	e.exec("UPDATE accounts SET last_token = 1, last_holder = 'h1'")
	accounts = &rowguard.Table{Guard: &sqlguard.Guard{DB: pool}, Name: pgx.Identifier{"accounts"}, Prefix: "account/"}
	ctx, issuer = token.NewContext(t.Context(), tokenOf(number)), &memtoken.Issuer{}
	return e
}

func (e examples) exec(sql string) {
	e.t.Helper()
	_, err := pool.Exec(e.t.Context(), sql)
	require.NoError(e.t, err)
}

// query returns the one value that a query returns.
func query[T any](e examples, sql string) (value T) {
	e.t.Helper()
	require.NoError(e.t, pool.QueryRow(e.t.Context(), sql).Scan(&value))
	return value
}

func (e examples) balance() int64 {
	return query[int64](e, "SELECT balance FROM accounts WHERE id = 42")
}

// row returns the mark that account 42 carries.
func (e examples) row() string {
	return query[string](e, "SELECT last_token || ' ' || last_holder FROM accounts WHERE id = 42")
}

func tokenOf(number int64) token.Token {
	return token.Token{Resource: "account/42", Number: number, Holder: fmt.Sprintf("h%d", number)}
}

// The examples share variables, so they run one after the other.
func TestExamplesOfTables(t *testing.T) {
	e := withExamples(t, 33)
	ExampleFence()
	require.Equal(t, int64(70), e.balance())
	ExampleFence_cte()
	require.Equal(t, int64(20), e.balance())
	require.Equal(t, int64(-50), query[int64](e, "SELECT sum(amount) FROM ledger"))
	ExampleFence_skipLocked()
	require.Equal(t, "paying", query[string](e, "SELECT state FROM accounts WHERE id = 42"))
	require.Equal(t, "33 h33", e.row())
	require.Equal(t, 1, query[int](e, "SELECT count(*) FROM accounts WHERE last_token > 1"), "and no other row")

	require.NoError(t, accounts.Claim(ctx, tokenOf(34)))
	e.exec("UPDATE accounts SET state = 'ready', balance = 100")
	for _, stale := range []func(){ExampleFence, ExampleFence_cte, ExampleFence_skipLocked} {
		stale()
		require.Equal(t, "100 ready 34", query[string](e, "SELECT concat_ws(' ', balance, state, last_token) FROM accounts WHERE id = 42"))
	}
	require.Equal(t, 1, query[int](e, "SELECT count(*) FROM ledger"))

	ctx = t.Context()
	ExampleTable()
	require.Equal(t, int64(50), e.balance())
	ExampleTable_skipLocked()
	require.Equal(t, "17 done, 18 ready", query[string](e, "SELECT string_agg(id || ' ' || state, ', ' ORDER BY id) FROM jobs"))

	jobs := Jobs{db: pool}
	id, late, err := jobs.Take(ctx, "worker-1")
	require.NoError(t, err)
	e.exec("UPDATE jobs SET until = now() - interval '1 s'") // it is paused for too long
	again, tok, err := jobs.Take(ctx, "worker-2")
	require.NoError(t, err)
	require.Equal(t, id, again)
	require.ErrorIs(t, jobs.Finish(token.NewContext(ctx, late), id), guard.ErrStale)
	require.NoError(t, jobs.Finish(token.NewContext(ctx, tok), id))
	_, _, err = jobs.Take(ctx, "worker-3")
	require.ErrorIs(t, err, pgx.ErrNoRows)
}

// Each statement waits for a newer holder's write that is not committed yet.
func TestWhereTheConditionStands(t *testing.T) {
	e := withExamples(t, 33)
	overtaken := func(statement func()) {
		e.exec("UPDATE accounts SET balance = 100, last_token = 1, last_holder = 'h1'; DELETE FROM fencepost.marks; DELETE FROM ledger")
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), "UPDATE accounts SET balance = 110, last_token = 34, last_holder = 'h34' WHERE id = 42")
		require.NoError(t, err)
		done := make(chan struct{})
		go func() { defer close(done); statement() }()
		for !query[bool](e, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')") {
			time.Sleep(time.Millisecond)
		}
		require.NoError(t, tx.Commit(t.Context()))
		<-done
	}
	for name, right := range map[string]func(){"on the row of a join": ExampleFence, "in a CTE": ExampleFence_cte} {
		overtaken(right)
		require.Equal(t, int64(110), e.balance(), name)
		require.Equal(t, "34 h34", e.row(), name)
	}
	overtaken(ExampleFence_incorrect)
	require.Equal(t, int64(70), e.balance(), "the twin, a sub-select without a lock, must be corrupted")
	require.Equal(t, "33 h33", e.row())
}
