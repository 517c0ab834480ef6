package sqlguard_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

// withExamples gives the examples what they use: a database with the tables,
// and a context with the token of account 42. Nothing but examples uses those.
func withExamples(t *testing.T, number int64) *env {
	t.Helper()
	var err error
	pool, err = pgxpool.New(t.Context(), testenv.Database(t))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	db := stdlib.OpenDBFromPool(pool)
	require.NoError(t, migrations.Up(t.Context(), db))
	require.NoError(t, db.Close())
	e := &env{t: t, pool: pool, schema: "public", guard: &sqlguard.Guard{DB: pool}}
	e.exec("CREATE TABLE accounts (id bigint PRIMARY KEY, balance bigint NOT NULL DEFAULT 100, state text NOT NULL DEFAULT 'ready', writer text)")
	e.exec("CREATE TABLE jobs (id bigint PRIMARY KEY, state text NOT NULL DEFAULT 'ready', until timestamptz)")
	e.exec("SELECT fencepost.add_mark_columns('accounts'), fencepost.add_mark_columns('jobs')")
	e.exec("CREATE TABLE bills (id bigint, account bigint, amount bigint); CREATE TABLE ledger (account bigint, amount bigint)")
	e.exec("INSERT INTO accounts VALUES (42), (43); INSERT INTO bills VALUES (7, 42, 30), (8, 43, 99); INSERT INTO jobs VALUES (17), (18)")
	e.exec("UPDATE accounts SET last_token = 1, last_holder = 'h1'")
	accounts = &sqlguard.Table{Guard: e.guard, Name: pgx.Identifier{"accounts"}, Prefix: "account/"}
	ctx, issuer = e.ctx(number), &memtoken.Issuer{}
	return e
}

// The examples are one after the other, since they share their variables.
func TestExamplesOfTables(t *testing.T) {
	e := withExamples(t, 33)
	ExampleFence()
	require.Equal(t, int64(70), e.balance())
	ExampleFence_NamedArgs()
	require.Equal(t, int64(20), e.balance())
	require.Equal(t, int64(-50), query[int64](e, "SELECT sum(amount) FROM ledger"))
	ExampleFence_skipLocked()
	require.Equal(t, "paying", query[string](e, "SELECT state FROM accounts WHERE id = 42"))
	require.Equal(t, "33 h33", e.row())
	require.Equal(t, 1, query[int](e, "SELECT count(*) FROM accounts WHERE last_token > 1"), "and no other row")

	require.NoError(t, accounts.Claim(ctx, tokenOf(34)))
	e.exec("UPDATE accounts SET state = 'ready', balance = 100")
	for _, stale := range []func(){ExampleFence, ExampleFence_NamedArgs, ExampleFence_skipLocked} {
		stale()
		require.Equal(t, "100 ready 34", query[string](e, "SELECT concat_ws(' ', balance, state, last_token) FROM accounts WHERE id = 42"))
	}
	require.Equal(t, 1, query[int](e, "SELECT count(*) FROM ledger"))

	ctx = e.bounded()
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

// Each statement meets a newer holder's write that is not committed yet.
func TestWhereTheConditionStands(t *testing.T) {
	overtaken := func(statement func()) (e *env) {
		e = withExamples(t, 33)
		tx := e.open(pgx.TxOptions{})
		_, err := tx.Exec(t.Context(), "UPDATE accounts SET balance = 110, last_token = 34, last_holder = 'h34' WHERE id = 42")
		require.NoError(t, err)
		done := async(func() error { statement(); return nil })
		e.await("the statement waits", func() bool {
			return query[bool](e, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')")
		})
		require.NoError(t, tx.Commit(t.Context()))
		require.NoError(t, await(t, done))
		return e
	}
	for name, right := range map[string]func(){"on the row of a join": ExampleFence, "in a CTE": ExampleFence_NamedArgs} {
		e := overtaken(right)
		require.Equal(t, int64(110), e.balance(), name)
		require.Equal(t, "34 h34", e.row(), name)
	}
	e := overtaken(ExampleFence_incorrect)
	require.Equal(t, int64(70), e.balance(), "the twin, a sub-select without a lock, must be corrupted")
	require.Equal(t, "33 h33", e.row())
}

func TestAFence(t *testing.T) {
	t.Parallel()
	e := newRows(t)
	t.Run("is for the row of its key alone", func(t *testing.T) {
		own, err := e.accounts.Fence(e.ctx(33), 42)
		require.NoError(t, err)
		tag, err := e.pool.Exec(t.Context(), e.sql("UPDATE accounts AS a SET writer = 'x', "+own.Set("a", 1)+" WHERE "+own.Where("a", 1)), own.Args()...)
		require.NoError(t, err)
		require.Equal(t, int64(1), tag.RowsAffected())
		require.Empty(t, query[string](e.env, "SELECT writer FROM accounts WHERE id = 43"))
	})
	t.Run("of no token there is none", func(t *testing.T) {
		own, err := e.accounts.Fence(e.ctx(33), 43)
		require.ErrorIs(t, err, token.ErrMissing)
		require.Equal(t, "(false)", own.Where("a", 1))
		require.Empty(t, own.Set("a", 1))
	})
	t.Run("is told apart from the other conditions of a statement", func(t *testing.T) {
		require.Equal(t, []error{guard.ErrNoRow}, outcomes(e.accounts.Explain(e.ctx(33), 42)), "to try again would be no use")
		require.ErrorIs(t, e.accounts.Explain(e.ctx(32), 42), guard.ErrStale)
		require.ErrorIs(t, e.accounts.Explain(e.as(33, "impostor"), 42), guard.ErrCollision)
		require.ErrorIs(t, e.accounts.Explain(context.Background(), 42), token.ErrMissing)
	})
	t.Run("two of one statement are numbered one after the other", func(t *testing.T) {
		both := token.NewContext(e.ctx(33), token.Token{Resource: "account/43", Number: 7, Holder: "h7"})
		from, err := e.accounts.Fence(both, 42)
		require.NoError(t, err)
		to, err := e.accounts.Fence(both, 43)
		require.NoError(t, err)
		require.Equal(t, 1, query[int](e.env, "SELECT count(*) FROM accounts AS a, accounts AS b WHERE "+from.Where("a", 1)+" AND "+to.Where("b", 5),
			append(from.Args(), to.Args()...)...))
	})
}
