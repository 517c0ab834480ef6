package sqlguard_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/internal/test/hooktest"
	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

// during returns the steps of each transaction of call.
func during(h *hooktest.Record, call func()) []string {
	h.Steps, h.Keys, h.Notes = nil, nil, nil
	call()
	return h.Transactions()
}

func TestSteps(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.admitted(33)
	var h hooktest.Record
	ctx, zombie := h.Listen(e.ctx(33)), h.Listen(e.ctx(32))
	undone, applied, committed := "begin undone", "begin applied", "begin admitted commit applied"
	on := e.guard.On(resource)
	mine := errors.New("fn's own")
	inTx := func(do func(tx pgx.Tx) error) func() error {
		return func() error { return pgx.BeginFunc(ctx, e.pool, do) }
	}
	for name, c := range map[string]struct {
		call  func() error
		is    error
		steps string // of one transaction; empty if there is none
	}{
		"Update":    {func() error { return e.guard.Update(ctx, resource, e.write(ctx, "x")) }, nil, committed},
		"UpdateAll": {func() error { return e.guard.UpdateAll(ctx, []string{resource}, e.write(ctx, "x")) }, nil, committed},
		"Update, whose fn fails": {func() error { return e.guard.Update(ctx, resource, func(pgx.Tx) error { return mine }) },
			mine, "begin admitted undone"},
		"Update, whose fn fails with what another write came to": {func() error { return e.guard.Update(ctx, resource, func(pgx.Tx) error { return guard.ErrUnknown }) },
			guard.ErrUnknown, "begin admitted undone"},
		"Update, refused": {func() error { return e.guard.Update(zombie, resource, e.write(ctx, "x")) }, guard.ErrStale, undone},
		"Update, without a token": {func() error { return e.guard.Update(ctx, "account/43", e.write(ctx, "x")) },
			token.ErrMissing, ""},
		"On.Exec": {func() error {
			_, err := on.Exec(ctx, e.sql("UPDATE accounts SET writer = 'x' WHERE id = 42"))
			return err
		}, nil, applied},
		"On.Exec, no row": {func() error {
			_, err := on.Exec(ctx, e.sql("UPDATE accounts SET writer = 'x' WHERE id = 7"))
			return err
		}, nil, undone},
		"On.Exec, a read":  {func() error { _, err := on.Exec(ctx, "SELECT 1"); return err }, nil, undone},
		"On.Exec, refused": {func() error { _, err := on.Exec(zombie, "SELECT 1"); return err }, guard.ErrStale, undone},
		"On.QueryRow": {func() error {
			return on.QueryRow(ctx, e.sql("UPDATE accounts SET writer = 'x' WHERE id = 42 RETURNING id")).Scan(nil)
		}, nil, applied},
		"On.QueryRow, a read": {func() error { return on.QueryRow(ctx, "SELECT 1").Scan(nil) }, nil, undone},
		"On.SendBatch": {func() error {
			return on.SendBatch(ctx, batch(e.sql("UPDATE accounts SET writer = 'x' WHERE id = 42"))).Close()
		}, nil, applied},
		"Admit":          {func() error { return e.guard.Admit(ctx, tokenOf(33)) }, nil, undone},
		"Admit, refused": {func() error { return e.guard.Admit(ctx, tokenOf(32)) }, guard.ErrStale, undone},
		"Join":           {inTx(func(tx pgx.Tx) error { return e.guard.Join(ctx, tx, resource) }), nil, "statement admitted"},
		"Join, refused":  {inTx(func(tx pgx.Tx) error { return e.guard.Join(zombie, tx, resource) }), guard.ErrStale, "statement"},
		"Update inside a transaction": {inTx(func(tx pgx.Tx) error {
			return (&sqlguard.Guard{DB: tx, Schema: e.schema}).Update(ctx, resource, e.write(ctx, "x"))
		}), nil, "admitted"},
	} {
		t.Run(name, func(t *testing.T) {
			steps := during(&h, func() { require.ErrorIs(t, c.call(), c.is) })
			require.Equal(t, c.steps, strings.Join(steps, " | "))
		})
	}
	t.Run("a panic in fn is undone", func(t *testing.T) {
		steps := during(&h, func() {
			require.Panics(t, func() { _ = e.guard.Update(ctx, resource, func(pgx.Tx) error { panic("boo") }) })
		})
		require.Equal(t, []string{"begin admitted undone"}, steps)
	})
	t.Run("a token that is new begins, claims, and begins again", func(t *testing.T) {
		ctx := h.Listen(e.ctx(34))
		steps := during(&h, func() { require.NoError(t, e.guard.Update(ctx, resource, e.write(ctx, "x"))) })
		require.Equal(t, []string{undone + " " + committed, undone}, steps, "the claim is a transaction of its own")
	})
}

// A repeat of a unit ends without a write, whether its token is stale or not, and is noted.
// A stale token without a unit is refused.
func TestStepsOfOnce(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"none", "reply", "commit"} {
		inEnv(t, "lost: "+fault, func(t *testing.T, e *env) {
			e.admitted(33)
			h := hooktest.Record{DropReplies: fault == "reply", DropCommits: fault == "commit"}
			unit := []any{failpoint.Tried{Resource: resource, Key: payment.Key}}
			repeated := append(unit, failpoint.Repeated{Resource: resource, Key: payment.Key})
			once := func(number int64, is error, steps string, notes []any) {
				t.Helper()
				require.Equal(t, []string{steps}, during(&h, func() {
					result, err := e.guard.Once(h.Listen(e.ctx(number)), resource, payment, e.pay("first"))
					require.ErrorIs(t, err, is)
					if err == nil {
						require.Equal(t, "first", string(result))
					}
				}))
				require.Equal(t, notes, h.Notes)
			}
			if fault != "none" {
				once(33, guard.ErrUnknown, "begin admitted commit unknown", unit)
			}
			h.DropReplies, h.DropCommits = false, false
			if fault != "reply" {
				once(33, nil, "begin admitted commit applied", unit)
			}
			once(33, nil, "begin undone", repeated)
			e.admitted(34)
			once(33, nil, "begin undone", repeated)
			once(34, nil, "begin undone", repeated)
			require.Equal(t, int64(101), e.balance())
			e.exec("DELETE FROM units")
			h.Notes = nil
			_, err := e.guard.Once(h.Listen(e.ctx(33)), resource, payment, mustNotRun)
			require.ErrorIs(t, err, guard.ErrStale)
			require.Equal(t, append(unit, failpoint.Refused{Err: err}), h.Notes)
		})
	}
}

// A unit that is there, and whose COMMIT is not confirmed, has an unknown outcome: what
// the program then writes again, it writes after an unknown one.
func TestStepsOfAUnitThatIsNotConfirmed(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.admitted(33)
	var h hooktest.Record
	fault := &commitFault{word: "pg_logical_emit_message"}
	g := e.by(pgtest.Connect(t, fault.breaks))
	try := func(want error) func() {
		return func() {
			_, err := g.Once(h.Listen(e.ctx(33)), resource, payment, e.pay("first"))
			require.ErrorIs(t, err, want)
		}
	}
	require.Equal(t, []string{"begin admitted commit applied"}, during(&h, try(nil)))
	fault.armed.Store(true)
	require.Equal(t, []string{"begin unknown"}, during(&h, try(guard.ErrUnknown)))
	require.Equal(t, []string{"begin undone"}, during(&h, try(nil)))
	require.Equal(t, int64(101), e.balance())
}

// While a writer is paused at a step, the database is in the state that the step's name
// describes.
func TestAStepIsWhereItsNameSays(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.admitted(33)
	pool, _ := wired(t, 1)
	var pid int
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid))
	g := e.by(pool)
	type sight struct{ transaction, locked, written bool }
	seen := map[failpoint.Step]sight{}
	h := hooktest.Record{OnStep: func(step failpoint.Step) {
		seen[step] = sight{
			query[bool](e, "SELECT state LIKE 'idle in transaction%' FROM pg_stat_activity WHERE pid = $1", pid),
			query[bool](e, "SELECT EXISTS (SELECT FROM pg_locks WHERE pid = $1 AND locktype = 'advisory' AND mode = 'ShareLock')", pid),
			e.writer() == "x",
		}
	}}
	ctx := h.Listen(e.ctx(33))
	require.NoError(t, g.Update(ctx, resource, e.write(ctx, "x")))
	require.Equal(t, map[failpoint.Step]sight{
		failpoint.Begin: {}, failpoint.Admitted: {true, true, false}, failpoint.Commit: {true, true, false}, failpoint.Applied: {false, false, true},
	}, seen)

	clear(seen)
	require.Error(t, g.Update(ctx, resource, func(pgx.Tx) error { return errors.New("fn's own") }))
	require.Equal(t, sight{false, false, true}, seen[failpoint.Undone])

	e.exec("UPDATE accounts SET writer = ''")
	clear(seen)
	_, err := g.On(resource).Exec(ctx, e.sql("UPDATE accounts SET writer = 'x' WHERE id = 42"))
	require.NoError(t, err)
	require.Equal(t, map[failpoint.Step]sight{failpoint.Begin: {}, failpoint.Applied: {false, false, true}}, seen)
}

func TestAnUnguardedTwinWritesThroughEveryDoor(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	var seen []error
	told := e.with(func(g *sqlguard.Guard) {
		g.Hooks.Reported = func(_ context.Context, err error) { seen = append(seen, err) }
		g.Hooks.Refused = func(context.Context, error) { t.Error("refused") }
	})
	doorsTold := doors(e, told)
	for name, door := range doors(e, e.guard) {
		e.exec("DELETE FROM marks")
		require.NoError(t, door(e.ctx(34), "34"), name)
		require.ErrorIs(t, door(e.ctx(33), "stale"), guard.ErrStale, name)
		require.NoError(t, door(failpoint.Unguarded(e.ctx(33)), "stale"), name)
		require.Equal(t, "stale", e.writer(), name)
		require.NoError(t, door(failpoint.Unguarded(e.as(34, "impostor")), "impostor"), name)
		if name != "Admit, then write" { // the test reads the context itself
			require.NoError(t, door(failpoint.Unguarded(e.bounded()), "no token"), name)
			require.Equal(t, "no token", e.writer(), name)
		}
		require.Equal(t, "34 h34", e.mark(resource), name)
		seen = nil
		require.NoError(t, doorsTold[name](failpoint.Unguarded(e.ctx(33)), "told"), name)
		require.ErrorIs(t, errors.Join(seen...), guard.ErrStale, name)
	}
}

// A simulation can drop the reply to a write: the write is applied, the caller gets
// ErrUnknown, and the pool loses no connection.
func TestALostAnswerIsUnknown(t *testing.T) {
	t.Parallel()
	inEveryMode(t, modes, func(t *testing.T, mode pgx.QueryExecMode) {
		e := newRows(t)
		e.claimed(33)
		e.admitted(33)
		pool, w := wired(t, 1, inMode(mode))
		require.NoError(t, pool.Ping(t.Context()))
		for name, steps := range map[string]string{
			"Update": "begin admitted commit unknown", "On.Exec": "begin unknown", "On.Exec, in BEGIN and COMMIT": "begin unknown",
			"On.QueryRow": "begin unknown", "On.Query": "begin unknown", "On.SendBatch": "begin unknown",
			"Table.Update": "begin unknown", "Table.Upsert": "begin unknown", "Table.Update, protected": "begin unknown",
		} {
			write := func(h *hooktest.Record, db sqlguard.DB) error {
				g, door := e.by(db), name
				if first, begins := strings.CutSuffix(name, ", in BEGIN and COMMIT"); begins {
					g.Tx.IsoLevel, door = pgx.ReadCommitted, first
				}
				return everyDoor(e.env, g)[door](h.Listen(e.ctx(33)), "x")
			}
			t.Run(name, func(t *testing.T) {
				e.exec("UPDATE accounts SET writer = ''")
				h, before := hooktest.Record{DropReplies: true}, w.dials.Load()
				err := write(&h, pool)
				require.ErrorIs(t, err, guard.ErrUnknown)
				require.Equal(t, "x", e.writer(), "it is applied")
				require.Equal(t, []string{steps}, h.Transactions())
				require.Equal(t, []any{h.Keys[0]}, h.ReplyKeys)
				require.NoError(t, pool.Ping(t.Context()))
				require.Equal(t, before+1, w.dials.Load(), "the connection is another")

				kept := hooktest.Record{}
				require.NoError(t, write(&kept, pool))
				require.Len(t, kept.ReplyKeys, 1)

				e.exec("UPDATE accounts SET writer = ''")
				h = hooktest.Record{DropReplies: true}
				require.ErrorIs(t, pool.AcquireFunc(t.Context(), func(conn *pgxpool.Conn) error { return write(&h, conn) }), guard.ErrUnknown)
				require.Equal(t, "x", e.writer(), "over a connection of the caller's")
				require.NoError(t, pool.Ping(t.Context()))
			})
		}
	})
}

func TestNoAnswerIsLostOfWhatDoesNotCommitAWrite(t *testing.T) {
	t.Parallel()
	e := newRows(t)
	e.claimed(33)
	e.admitted(33)
	h := hooktest.Record{DropReplies: true}
	ctx, zombie := h.Listen(e.ctx(33)), h.Listen(e.ctx(32))
	on, inTx := e.guard.On(resource), func(do func(g *sqlguard.Guard) error) func() error {
		return func() error {
			return pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error { return do(e.by(tx)) })
		}
	}
	for name, c := range map[string]struct {
		call func() error
		is   error
	}{
		"Admit":                    {func() error { return e.guard.Admit(ctx, tokenOf(33)) }, nil},
		"Mint":                     {func() error { _, err := e.guard.Mint(ctx, "account/43", "a"); return err }, nil},
		"Table.Claim":              {func() error { return e.accounts.Claim(ctx, tokenOf(33)) }, nil},
		"a read":                   {func() error { _, err := on.Exec(ctx, "SELECT 1"); return err }, nil},
		"no row":                   {func() error { _, err := on.Exec(ctx, e.sql("DELETE FROM accounts WHERE id = 7")); return err }, nil},
		"On, refused":              {func() error { _, err := on.Exec(zombie, "SELECT 1"); return err }, guard.ErrStale},
		"Update, refused":          {func() error { return e.guard.Update(zombie, resource, e.write(ctx, "x")) }, guard.ErrStale},
		"Table, refused":           {func() error { return e.accounts.Update(zombie, 42, setWriter) }, guard.ErrStale},
		"fn's error":               {func() error { return e.guard.Update(ctx, resource, func(pgx.Tx) error { return pgx.ErrNoRows }) }, pgx.ErrNoRows},
		"Join":                     {inTx(func(g *sqlguard.Guard) error { return g.Join(ctx, g.DB.(pgx.Tx), resource) }), nil},
		"Update, in a transaction": {inTx(func(g *sqlguard.Guard) error { return g.Update(ctx, resource, e.write(ctx, "x")) }), nil},
		"On, in a transaction": {inTx(func(g *sqlguard.Guard) error {
			_, err := g.On(resource).Exec(ctx, e.sql("UPDATE accounts SET writer = 'x'"))
			return err
		}), nil},
		"Table, in a transaction": {inTx(func(g *sqlguard.Guard) error { return e.table(g).Update(ctx, 42, setWriter) }), nil},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorIs(t, c.call(), c.is)
			require.Empty(t, h.ReplyKeys)
		})
	}
	t.Run("a claim before Update", func(t *testing.T) {
		ctx := h.Listen(e.ctx(34))
		require.ErrorIs(t, e.guard.Update(ctx, resource, e.write(ctx, "new")), guard.ErrUnknown)
		require.Equal(t, "new", e.writer())
		require.Len(t, h.ReplyKeys, 1)
	})
}

func TestTheBoundOfASimulation(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for _, c := range []struct {
		own, wanted time.Duration
		inside      string
	}{
		{0, 7 * time.Minute, "7min"}, {0, 0, "5s"}, {time.Hour, 7 * time.Minute, "7min"}, {3 * time.Minute, 7 * time.Minute, "3min"}, {-1, 7 * time.Minute, "0"},
	} {
		h := hooktest.Record{IdleTimeout: c.wanted}
		ctx, g := h.Listen(e.ctx(33)), e.with(func(g *sqlguard.Guard) { g.IdleTimeout = c.own })
		var inside string
		require.NoError(t, untilInTime(func() error {
			return g.Update(ctx, resource, func(tx pgx.Tx) error {
				return tx.QueryRow(ctx, "SHOW idle_in_transaction_session_timeout").Scan(&inside)
			})
		}))
		require.Equal(t, c.inside, inside, "%+v", c)
		require.NoError(t, untilInTime(func() error {
			return pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error {
				if err := g.Join(ctx, tx, resource); err != nil {
					return err
				}
				return tx.QueryRow(ctx, "SHOW idle_in_transaction_session_timeout").Scan(&inside)
			})
		}))
		require.Equal(t, c.inside, inside, "Join, %+v", c)
		require.Equal(t, c.own, g.IdleTimeout, "the guard is the caller's")
	}
}

func TestASleeperIsEvictedBySimulationsBound(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	h := hooktest.Record{IdleTimeout: 20 * time.Millisecond}
	ctx := h.Listen(e.ctx(33))
	err := e.guard.Update(ctx, resource, func(tx pgx.Tx) error {
		e.gone(tx.Conn().PgConn().PID())
		return e.write(ctx, "x")(tx)
	})
	require.ErrorIs(t, err, guard.ErrEvicted)
	require.Empty(t, e.writer())
	require.Equal(t, failpoint.Undone, h.Steps[len(h.Steps)-1])
	require.NoError(t, e.guard.Update(e.ctx(33), resource, e.write(e.ctx(33), "x")), "the pool is usable")
}

// A Mint that fails, or has not finished when a run ends, is no guard's write either.
func TestAMintIsAClaimFromItsFirstStepOn(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	claims := map[failpoint.Step]bool{}
	ctx := failpoint.Listen(e.bounded(), failpoint.Func(func(ctx context.Context, step failpoint.Step, _ any) {
		claims[step] = failpoint.IsClaim(ctx)
	}))
	_, err := e.guard.Mint(ctx, resource, "h1")
	require.NoError(t, err)
	require.Equal(t, map[failpoint.Step]bool{failpoint.Begin: true, failpoint.Undone: true}, claims)
}
