package stdsql_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/internal/test/hooktest"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token"
)

func TestSteps(t *testing.T) {
	t.Parallel()
	all := func(steps ...failpoint.Step) []failpoint.Step { return steps }
	mine, broken := errors.New("fn's own"), errors.New("disk I/O error")
	cases := map[string]struct {
		number int64
		commit func(openTx) error
		call   func(ctx context.Context, g *stdsql.Guard) error
		is     error
		steps  []failpoint.Step
	}{
		"Update": {33, nil, func(ctx context.Context, g *stdsql.Guard) error { return g.Update(ctx, account, add(ctx, 10)) },
			nil, all("begin", "admitted", "commit", "applied")},
		"Update, refused": {32, nil, func(ctx context.Context, g *stdsql.Guard) error { return g.Update(ctx, account, add(ctx, 10)) },
			guard.ErrStale, all("begin", "undone")},
		"Update, whose fn fails": {33, nil, func(ctx context.Context, g *stdsql.Guard) error {
			return g.Update(ctx, account, func(*sql.Tx) error { return mine })
		}, mine, all("begin", "admitted", "undone")},
		"Update, whose fn fails with what another write came to": {33, nil, func(ctx context.Context, g *stdsql.Guard) error {
			return g.Update(ctx, account, func(*sql.Tx) error { return guard.ErrUnknown })
		}, guard.ErrUnknown, all("begin", "admitted", "undone")},
		"Update, whose fn commits": {33, nil, func(ctx context.Context, g *stdsql.Guard) error {
			return g.Update(ctx, account, func(tx *sql.Tx) error { return errors.Join(mine, tx.Commit()) })
		}, guard.ErrUnknown, all("begin", "admitted", "unknown")},
		"Update, without an answer to COMMIT": {33, func(tx openTx) error { return errors.Join(broken, tx.Commit()) },
			func(ctx context.Context, g *stdsql.Guard) error { return g.Update(ctx, account, add(ctx, 10)) },
			guard.ErrUnknown, all("begin", "admitted", "commit", "unknown")},
		"Admit": {33, nil, func(ctx context.Context, g *stdsql.Guard) error { return g.Admit(ctx, tok(34, "a")) },
			nil, all("begin", "undone")},
		"Join": {33, nil, func(ctx context.Context, g *stdsql.Guard) error {
			return inTx(t, g.DB, func(tx *sql.Tx) error { return g.Join(ctx, tx, account) })
		}, nil, all("statement", "admitted")},
		"Join, of what cannot be compared": {33, nil, func(ctx context.Context, g *stdsql.Guard) error {
			return inTx(t, g.DB, func(tx *sql.Tx) error { return g.Join(ctx, loose{querier: tx}, account) })
		}, nil, all("statement", "admitted")},
	}
	onEach(t, func(t *testing.T, db *database) {
		for name, c := range cases {
			t.Run(name, func(t *testing.T) {
				if c.commit != nil && db.dialect == stdsql.Postgres { // it is settled
					c.is, c.steps = nil, all("begin", "admitted", "commit", "applied")
				}
				db.forget(t)
				db.claim(t, tok(33, "a"))
				g := db.over(db.hooked(t, &hooks{commit: c.commit}))
				var h hooktest.Record
				require.ErrorIs(t, c.call(h.Listen(holding(t, c.number, "a")), g), c.is)
				require.Equal(t, c.steps, h.Steps)
				for _, key := range h.Keys {
					require.True(t, h.Keys[0] == key, "one transaction")
				}
			})
		}
	})
}

// A repeat of a unit ends without a write, whether its token is stale or not, and is noted.
func TestStepsOfOnce(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		for _, fault := range []string{"none", "reply", "commit"} {
			if db.dialect == stdsql.SQLite && fault != "none" {
				continue // it has no connection to lose
			}
			db.forget(t)
			db.claim(t, tok(33, "a"))
			before := balance(t, db)
			h := hooktest.Record{DropReplies: fault == "reply", DropCommits: fault == "commit"}
			unit := guard.Unit{Key: "lost/" + fault}
			tried := []any{failpoint.Tried{Resource: account, Key: unit.Key}}
			repeated := append(tried, failpoint.Repeated{Resource: account, Key: unit.Key})
			once := func(number int64, is error, notes []any, steps ...failpoint.Step) {
				t.Helper()
				h.Steps, h.Notes = nil, nil
				ctx := h.Listen(holding(t, number, "a"))
				result, err := db.guard().Once(ctx, account, unit, func(tx *sql.Tx) ([]byte, error) {
					return []byte("first"), add(ctx, 10)(tx)
				})
				require.ErrorIs(t, err, is)
				if err == nil {
					require.Equal(t, "first", string(result))
				}
				require.Equal(t, steps, h.Steps)
				require.Equal(t, notes, h.Notes)
			}
			if fault != "none" {
				once(33, guard.ErrUnknown, tried, "begin", "admitted", "commit", "unknown")
			}
			h.DropReplies, h.DropCommits = false, false
			if fault != "reply" {
				once(33, nil, tried, "begin", "admitted", "commit", "applied")
			}
			once(33, nil, repeated, "begin", "admitted", "undone")
			db.claim(t, tok(34, "a"))
			once(33, nil, repeated, "begin", "undone")
			once(34, nil, repeated, "begin", "admitted", "undone")
			require.Equal(t, before+10, balance(t, db))
		}
	})
}

func TestStepsOfATokenThatWasNotClaimed(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		var h hooktest.Record
		ctx := h.Listen(holding(t, 33, "a"))
		require.NoError(t, db.update(ctx, add(ctx, 10)))
		steps := []failpoint.Step{"begin", "admitted", "commit", "applied"}
		if db.dialect != stdsql.SQLite {
			steps = append([]failpoint.Step{"begin", "undone", "begin", "undone"}, steps...)
		}
		require.Equal(t, steps, h.Steps)
	})
}

func TestStepsOfAMint(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		var h hooktest.Record
		_, err := db.guard().Mint(h.Listen(t.Context()), account, "a")
		require.NoError(t, err)
		require.Equal(t, []failpoint.Step{"begin", "undone"}, h.Steps)
		if db.dialect == stdsql.MySQL {
			return
		}
		h = hooktest.Record{}
		require.NoError(t, inTx(t, db, func(tx *sql.Tx) error {
			_, err := db.guard().MintTx(h.Listen(t.Context()), tx, account, "b")
			return err
		}))
		require.Equal(t, []failpoint.Step{"statement", "admitted"}, h.Steps)
	})
}

// loose is a wrapper of a transaction that cannot be compared.
type loose struct {
	querier
	_ func()
}

// While a writer is paused at a step, the database is in the state that the step's name
// describes.
func TestSQLiteAStepIsWhereItsNameSays(t *testing.T) {
	t.Parallel()
	file := newFile(t, longBusyTimeout+"&"+wal)
	db, other := onSQLite(t, file, longBusyTimeout+"&"+wal), onSQLite(t, file, noBusyTimeout+"&"+wal)
	type sight struct {
		locked  bool
		balance int
	}
	seen := map[failpoint.Step]sight{}
	h := hooktest.Record{OnStep: func(step failpoint.Step) {
		_, err := other.Exec("UPDATE ledger SET number = 1")
		seen[step] = sight{err != nil, balance(t, other)}
	}}
	ctx := h.Listen(holding(t, 33, "a"))
	require.NoError(t, db.update(ctx, add(ctx, 10)))
	require.Equal(t, map[failpoint.Step]sight{
		failpoint.Begin: {false, 100}, failpoint.Admitted: {true, 100}, failpoint.Commit: {true, 100}, failpoint.Applied: {false, 110},
	}, seen)
}

// It changes the program's logger, so it runs alone.
func TestAnUnguardedTwinWritesAndLogsNothing(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	for _, open := range envs {
		db := open(t)
		for i, withHook := range []bool{false, true} {
			reported := 0
			g := db.guard()
			if withHook {
				g.Hooks = guard.Hooks{
					Refused:  func(context.Context, error) { t.Error("refused") },
					Reported: func(context.Context, error) { reported++ },
				}
			}
			db.claim(t, tok(33, "a"))
			for _, ctx := range []context.Context{holding(t, 32, "b"), holding(t, 33, "b"), t.Context(), holding(t, 34, "")} {
				twin := failpoint.Unguarded(ctx)
				require.NoError(t, g.Update(twin, account, add(twin, 10)))
				require.NoError(t, inTx(t, g.DB, func(tx *sql.Tx) error { return g.Join(twin, tx, account) }))
				require.NoError(t, g.Admit(twin, token.Token{}))
			}
			require.Equal(t, 140+40*i, balance(t, db))
			require.Equal(t, guard.Mark{Number: 33, Holder: "a"}, db.mark(t, account))
			require.Equal(t, map[bool]int{true: 12}[withHook], reported)
		}
	}
	require.Empty(t, log.String())
	refused := newSQLite(t).guard()
	require.ErrorIs(t, refused.Update(t.Context(), account, add(t.Context(), 10)), token.ErrMissing)
}

// A simulation can drop the reply to COMMIT: the write is applied, its caller gets
// ErrUnknown, and the connection is replaced. On SQLite no reply is dropped.
func TestALostAnswerIsUnknown(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		db.claim(t, tok(33, "a"))
		db.SetMaxOpenConns(1)
		h := hooktest.Record{DropReplies: true}
		ctx := h.Listen(holding(t, 33, "a"))
		err := db.update(ctx, add(ctx, 10))
		require.Equal(t, 110, balance(t, db), "it is applied")
		if db.dialect == stdsql.SQLite {
			require.NoError(t, err)
			require.Empty(t, h.ReplyKeys)
			return
		}
		require.ErrorIs(t, err, guard.ErrUnknown)
		require.ErrorIs(t, err, failpoint.ErrLost)
		require.Equal(t, []string{"begin admitted commit unknown"}, h.Transactions())
		require.Equal(t, []any{h.Keys[0]}, h.ReplyKeys)
		require.Zero(t, db.Stats().InUse)

		h.DropReplies = false
		require.NoError(t, db.update(ctx, add(ctx, 10)))
		require.Equal(t, 120, balance(t, db))
		require.Len(t, h.ReplyKeys, 2)
	})
}

func TestNoAnswerIsLostOfWhatDoesNotCommitAWrite(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		number int64
		call   func(ctx context.Context, g *stdsql.Guard) error
		is     error
		drops  int
	}{
		"a claim":   {33, func(ctx context.Context, g *stdsql.Guard) error { return g.Admit(ctx, tok(34, "a")) }, nil, 0},
		"a refusal": {32, func(ctx context.Context, g *stdsql.Guard) error { return g.Update(ctx, account, add(ctx, 10)) }, guard.ErrStale, 0},
		"fn's error": {33, func(ctx context.Context, g *stdsql.Guard) error {
			return g.Update(ctx, account, func(*sql.Tx) error { return context.Canceled })
		}, context.Canceled, 0},
		"Join": {33, func(ctx context.Context, g *stdsql.Guard) error {
			return inTx(t, g.DB, func(tx *sql.Tx) error { return g.Join(ctx, tx, account) })
		}, nil, 0},
		"Update of a token that was not claimed": {34, func(ctx context.Context, g *stdsql.Guard) error { return g.Update(ctx, account, add(ctx, 10)) },
			guard.ErrUnknown, 1},
	}
	onServers(t, func(t *testing.T, db *database) {
		for name, c := range cases {
			t.Run(name, func(t *testing.T) {
				db.forget(t)
				db.claim(t, tok(33, "a"))
				h := hooktest.Record{DropReplies: true}
				require.ErrorIs(t, c.call(h.Listen(holding(t, c.number, "a")), db.guard()), c.is)
				require.Len(t, h.ReplyKeys, c.drops)
			})
		}
	})
}

// On PostgreSQL a simulation evicts paused holders early. MySQL's bound is in whole
// seconds, and SQLite has none.
func TestTheBoundOfASimulation(t *testing.T) {
	t.Parallel()
	db := newPostgres(t)
	for _, c := range []struct {
		own, wanted time.Duration
		inside      string
	}{
		{0, 7 * time.Minute, "7min"}, {0, 0, "5s"}, {idle, 7 * time.Minute, "7min"}, {3 * time.Minute, 7 * time.Minute, "3min"}, {-1, 7 * time.Minute, "0"},
	} {
		h := hooktest.Record{IdleTimeout: c.wanted}
		ctx, g := h.Listen(holding(t, 33, "a")), db.guard()
		g.IdleTimeout = c.own
		inside := ""
		require.NoError(t, notEvicted(func() error {
			return g.Update(ctx, account, func(tx *sql.Tx) error {
				return tx.QueryRowContext(ctx, "SHOW idle_in_transaction_session_timeout").Scan(&inside)
			})
		}))
		require.Equal(t, c.inside, inside, "%+v", c)
		require.Equal(t, c.own, g.IdleTimeout, "the guard is the caller's")
	}
}

func TestASleeperIsEvictedBySimulationsBound(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		db.claim(t, tok(33, "a")) // before: a claim is a transaction with the bound
		const bound = 20 * time.Millisecond
		h := hooktest.Record{IdleTimeout: bound}
		own := holding(t, 33, "a")
		ctx := h.Listen(own)
		asleep := func() { time.Sleep(2 * bound) }
		if db.dialect == stdsql.Postgres {
			asleep = db.oneSession(t)
		}
		err := db.update(ctx, func(tx *sql.Tx) error {
			asleep()
			return write(ctx, tx, 0)
		})
		if db.dialect != stdsql.Postgres {
			require.NoError(t, err)
			return
		}
		require.ErrorIs(t, err, guard.ErrEvicted)
		require.Equal(t, 100, balance(t, db))
		require.NoError(t, db.update(own, add(own, 10)), "the pool is usable")
	})
}

// oneSession limits a pool of PostgreSQL to one session. awaitEnded returns when the
// server has ended it. Its process id is queried before a transaction begins, since each
// statement inside would have to be sent before the bound.
func (db *database) oneSession(t *testing.T) (awaitEnded func()) {
	t.Helper()
	elsewhere := *db
	elsewhere.DB = db.connect(t)
	db.SetMaxOpenConns(1)
	pid := one[int](t, db, "SELECT pg_backend_pid()")
	return func() { elsewhere.awaitEnded(t, pid) }
}

func (db *database) awaitEnded(t *testing.T, pid int) {
	t.Helper()
	db.eventually(t, fmt.Sprint("SELECT count(*) FROM pg_stat_activity WHERE pid = ", pid), func(sessions int) bool { return sessions == 0 })
}
