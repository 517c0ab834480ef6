package stdsql_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
)

// hazard G8
func TestPostgresAHolderThatIsNotIdleIsEvicted(t *testing.T) {
	t.Parallel()
	db := newPostgres(t)
	db.claim(t, tok(33, "a"))
	older := holding(t, 33, "a")
	begun, over := make(chan struct{}), make(chan struct{})
	wake := sync.OnceFunc(func() { close(over) })
	defer wake()
	unbounded := db.guard()
	unbounded.IdleTimeout = -1
	late := make(chan error, 1)
	go func() {
		late <- unbounded.Update(older, account, func(tx *sql.Tx) error {
			if err := write(older, tx, 0); err != nil {
				return err
			}
			rows, err := tx.QueryContext(older, "SELECT repeat('x', 1000) FROM generate_series(1, 1000000)")
			if err != nil {
				return err
			}
			defer rows.Close()
			rows.Next()
			close(begun)
			<-over // with a result that it does not read
			for rows.Next() {
			}
			return rows.Err()
		})
	}()
	<-begun

	ctx, leave := context.WithCancel(t.Context())
	waiting := make(chan error, 1)
	go func() { waiting <- unbounded.Admit(ctx, tok(34, "b")) }()
	db.awaitWaiting(t)
	leave()
	require.ErrorIs(t, <-waiting, context.Canceled, "the twin without a bound must wait")

	newer := holding(t, 34, "b")
	db.bounded(t, func(g *stdsql.Guard) error { return g.Admit(newer, tok(34, "b")) })
	require.NoError(t, db.update(newer, add(newer, 10)))
	wake()
	require.Error(t, <-late)
	require.Equal(t, 110, balance(t, db))
}

// short is a timeout that must pass.
const short = 50 * time.Millisecond

// bounded attempts a call that waits for older writers, with an idle bound that soon ends
// them. The bound applies to the attempt's own session too, so it is doubled until the
// machine is fast enough.
func (db *database) bounded(t *testing.T, attempt func(g *stdsql.Guard) error) {
	t.Helper()
	g := db.guard()
	for g.IdleTimeout = short; ; g.IdleTimeout *= 2 {
		err := attempt(g)
		if !errors.Is(err, guard.ErrEvicted) && !errors.Is(err, guard.ErrUnknown) {
			require.NoError(t, err)
			return
		}
	}
}

// checkAfter is the age from which a transaction is checked before COMMIT.
const checkAfter = 101 * time.Millisecond

// hazard G8
func TestPostgresAnIdleHolderIsEnded(t *testing.T) {
	t.Parallel()
	db := newPostgres(t)
	db.claim(t, tok(33, "a"))
	ctx := holding(t, 33, "a")
	for _, late := range []func(tx *sql.Tx) error{
		func(tx *sql.Tx) error { return write(ctx, tx, 0) },
		func(*sql.Tx) error { return nil }, // detected before COMMIT is sent
	} {
		var err error
		for early := true; early; {
			pool := *db
			pool.DB = db.connect(t)
			awaitEnded := pool.oneSession(t)
			g := pool.guard()
			g.IdleTimeout = short
			err = g.Update(ctx, account, func(tx *sql.Tx) error {
				err := write(ctx, tx, 0)
				if early = err != nil; early { // the session was ended before: the machine is slow
					return err
				}
				awaitEnded()
				time.Sleep(checkAfter)
				return late(tx)
			})
		}
		require.ErrorIs(t, err, guard.ErrEvicted)
		require.NotErrorIs(t, err, guard.ErrUnknown)
		require.Equal(t, 100, balance(t, db))
	}
	err := db.update(ctx, func(tx *sql.Tx) error {
		require.NoError(t, write(ctx, tx, 0))
		pid := one[int](t, tx, "SELECT pg_backend_pid()")
		time.Sleep(checkAfter)
		_, err := db.ExecContext(ctx, "SELECT pg_terminate_backend($1)", pid) // as a successor does
		db.awaitEnded(t, pid)
		return err
	})
	require.ErrorIs(t, err, guard.ErrEvicted, "found out before COMMIT was sent")
	require.NotErrorIs(t, err, guard.ErrUnknown)
	require.Equal(t, 100, balance(t, db))
}

// hazard G7
func TestPostgresSerializationFailuresAreRetryable(t *testing.T) {
	t.Parallel()
	db := newPostgres(t)
	run(t, db, "INSERT INTO accounts VALUES (43, 100)")
	for _, level := range []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelSerializable} {
		g, ctx := db.guard(), holding(t, 33, "a")
		g.Tx = &sql.TxOptions{Isolation: level}
		before := balance(t, db)
		err := g.Update(ctx, account, func(tx *sql.Tx) error {
			_, err := read(ctx, tx)
			require.NoError(t, err)
			require.NoError(t, write(ctx, db, before+1)) // a writer without the guard
			return write(ctx, tx, 0)
		})
		require.ErrorIs(t, err, guard.ErrRetryable, "%s", level)
		require.False(t, guard.IsRefusal(err))
		require.Equal(t, before+1, balance(t, db))
	}
	// Two transactions that read each other's writes. The conflict is detected when the
	// second one commits.
	g, ctx := db.guard(), holding(t, 33, "a")
	g.Tx = &sql.TxOptions{Isolation: sql.LevelSerializable}
	err := g.Update(ctx, account, func(tx *sql.Tx) error {
		require.Equal(t, 100, one[int](t, tx, "SELECT balance FROM accounts WHERE id = 43"))
		require.NoError(t, write(ctx, tx, 0))
		return g.Update(ctx, account, func(other *sql.Tx) error {
			_, err := read(ctx, other)
			require.NoError(t, err)
			_, err = other.ExecContext(ctx, "UPDATE accounts SET balance = 0 WHERE id = 43")
			return err
		})
	})
	require.ErrorIs(t, err, guard.ErrRetryable)
	require.ErrorContains(t, err, "stdsql: commit: ")
	require.NotEqual(t, 0, balance(t, db))
}

// hazard G23
func TestPostgresJoinUnderAFixedSnapshotNeedsAClaim(t *testing.T) {
	t.Parallel()
	db := newPostgres(t)
	db.claim(t, tok(33, "a"))
	older, newer := holding(t, 33, "a"), holding(t, 34, "b")
	fixed := &sql.TxOptions{Isolation: sql.LevelRepeatableRead}
	tx, err := db.BeginTx(t.Context(), fixed)
	require.NoError(t, err)
	defer tx.Rollback()
	seen := balance(t, tx) // before it is admitted
	require.NoError(t, db.update(older, add(older, 50)))
	require.ErrorIs(t, db.guard().Join(newer, tx, account), guard.ErrClaimFirst)
	require.NoError(t, tx.Rollback())
	db.claim(t, tok(34, "b"))
	require.NoError(t, write(t.Context(), db, seen+10))
	require.Equal(t, 110, balance(t, db), "the twin, which writes all the same, must lose the older one's write")
}

// hazard G26
func TestPostgresAdmitAndMintAreDurable(t *testing.T) {
	t.Parallel()
	spare := testenv.SparePostgres(t)
	const rounds = 3
	lost := 0
	require.NoError(t, migrations.Set{}.Up(t.Context(), connect(t, "pgx", spare.URL())))
	for round := range int64(rounds) {
		db := connect(t, "pgx", spare.URL()+"&synchronous_commit=off")
		g := &stdsql.Guard{DB: db, IdleTimeout: idle}
		require.NoError(t, g.Admit(t.Context(), tok(33+round, "h")))
		minted, err := mintedToken(g.Mint(t.Context(), "minted", "h"))
		require.NoError(t, err)
		_, err = db.ExecContext(t.Context(), "SELECT fencepost.admit('plain', $1, 'h')", 33+round)
		require.NoError(t, err)
		require.NoError(t, db.Close())
		spare.Crash()
		db = connect(t, "pgx", spare.URL())
		require.Equal(t, 33+round, one[int64](t, db, "SELECT number FROM fencepost.marks WHERE resource = 'account/42'"))
		require.Equal(t, minted.Number, one[int64](t, db, "SELECT number FROM fencepost.marks WHERE resource = 'minted'"))
		if one[int64](t, db, "SELECT coalesce(max(number), 0) FROM fencepost.marks WHERE resource = 'plain'") < 33+round {
			lost++
		}
	}
	require.Positive(t, lost, "the twin, a plain admit, must be lost")
}

func TestPostgresInEveryExecMode(t *testing.T) {
	t.Parallel()
	db := newPostgres(t)
	for i, mode := range execModes {
		pool := connect(t, "pgx", db.setting(t, "default_query_exec_mode", mode))
		number := int64(33 + i)
		g, ctx, zombie := db.over(pool), holding(t, number, "a"), holding(t, number-1, "b")
		for range 2 {
			require.NoError(t, g.Update(ctx, account, add(ctx, 10)), mode)
		}
		require.ErrorIs(t, g.Update(zombie, account, add(zombie, 10)), guard.ErrStale, mode)
		g.DangerouslyReportOnly, g.Hooks.Reported = true, func(context.Context, error) {}
		require.NoError(t, g.Update(zombie, account, add(zombie, 10)), mode)
		require.NoError(t, inTx(t, pool, func(tx *sql.Tx) error { return g.Join(ctx, tx, account) }), mode)
	}
	require.Equal(t, 250, balance(t, db))
}

// hazard G13
func TestStressPostgresSchemasOfAnyName(t *testing.T) {
	t.Parallel()
	db := newPostgres(t)
	for _, prefix := range []string{`we"ird; drop`, `o'brien`, `a.b`, `Größe`, `$1`, `back\slash`, `"fencepost".`, `?`} {
		name := prefix + db.schema
		quoted := `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
		require.NoError(t, migrations.Set{Schema: name}.Up(t.Context(), db.DB))
		g := &stdsql.Guard{DB: db.DB, Schema: name, IdleTimeout: idle}
		ctx := holding(t, 33, "a")
		require.NoError(t, g.Update(ctx, account, add(ctx, 1)))
		require.Equal(t, 33, one[int](t, db, "SELECT number FROM "+quoted+".marks"))
		run(t, db, "DROP SCHEMA "+quoted+" CASCADE")
		require.ErrorContains(t, g.Update(ctx, account, add(ctx, 1)), "run migrations.Up")
	}
}

// The package-level Update, and a Guard that has only a DB, use the default schema of a
// PostgreSQL database.
func TestTheDefaultSchema(t *testing.T) {
	t.Parallel()
	db := connect(t, "pgx", testenv.Database(t))
	require.NoError(t, migrations.Set{}.Up(t.Context(), db))
	run(t, db, "CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER)")
	run(t, db, "INSERT INTO accounts VALUES (42, 100)")
	ctx, zombie := holding(t, 33, "a"), holding(t, 32, "b")
	require.NoError(t, stdsql.Update(ctx, db, account, add(ctx, 10)))
	require.ErrorIs(t, stdsql.Update(zombie, db, account, add(zombie, 10)), guard.ErrStale)
	require.Equal(t, 110, balance(t, db))
	_, err := (&stdsql.Guard{DB: db}).Mint(ctx, account, "b")
	require.NoError(t, err)
	require.ErrorIs(t, stdsql.Update(ctx, db, account, add(ctx, 10)), guard.ErrStale)
	require.NoError(t, db.Close())
}
