package sqlguard_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/heard"
	"github.com/fencepost/fencepost/internal/point"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

// during returns the steps of call.
func during(h *heard.Record, call func()) (steps []string) {
	h.Steps, h.Keys = nil, nil
	call()
	for _, step := range h.Steps {
		steps = append(steps, string(step))
	}
	return steps
}

func TestSteps(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.admitted(33)
	var h heard.Record
	ctx, zombie := h.Listen(e.ctx(33)), h.Listen(e.ctx(32))
	all := func(steps ...string) []string { return steps }
	on := e.guard.On(resource)
	mine := errors.New("fn's own")
	inTx := func(do func(tx pgx.Tx) error) func() error {
		return func() error { return pgx.BeginFunc(ctx, e.pool, do) }
	}
	for name, c := range map[string]struct {
		call  func() error
		is    error
		steps []string
	}{
		"Update":    {func() error { return e.guard.Update(ctx, resource, e.write(ctx, "x")) }, nil, all("begin", "admitted", "commit", "applied")},
		"UpdateAll": {func() error { return e.guard.UpdateAll(ctx, []string{resource}, e.write(ctx, "x")) }, nil, all("begin", "admitted", "commit", "applied")},
		"Update, whose fn fails": {func() error { return e.guard.Update(ctx, resource, func(pgx.Tx) error { return mine }) },
			mine, all("begin", "admitted", "undone")},
		"Update, whose fn fails with what another write came to": {func() error { return e.guard.Update(ctx, resource, func(pgx.Tx) error { return guard.ErrUnknown }) },
			guard.ErrUnknown, all("begin", "admitted", "undone")},
		"Update, refused": {func() error { return e.guard.Update(zombie, resource, e.write(ctx, "x")) }, guard.ErrStale, all("begin", "undone")},
		"Update, without a token": {func() error { return e.guard.Update(ctx, "account/43", e.write(ctx, "x")) },
			token.ErrMissing, nil},
		"On.Exec": {func() error {
			_, err := on.Exec(ctx, e.sql("UPDATE accounts SET writer = 'x' WHERE id = 42"))
			return err
		}, nil, all("begin", "applied")},
		"On.Exec, no row": {func() error {
			_, err := on.Exec(ctx, e.sql("UPDATE accounts SET writer = 'x' WHERE id = 7"))
			return err
		}, nil, all("begin", "undone")},
		"On.Exec, a read":  {func() error { _, err := on.Exec(ctx, "SELECT 1"); return err }, nil, all("begin", "undone")},
		"On.Exec, refused": {func() error { _, err := on.Exec(zombie, "SELECT 1"); return err }, guard.ErrStale, all("begin", "undone")},
		"On.QueryRow": {func() error {
			return on.QueryRow(ctx, e.sql("UPDATE accounts SET writer = 'x' WHERE id = 42 RETURNING id")).Scan(nil)
		}, nil, all("begin", "applied")},
		"On.QueryRow, a read": {func() error { return on.QueryRow(ctx, "SELECT 1").Scan(nil) }, nil, all("begin", "undone")},
		"On.SendBatch": {func() error {
			b := &pgx.Batch{}
			b.Queue(e.sql("UPDATE accounts SET writer = 'x' WHERE id = 42"))
			return on.SendBatch(ctx, b).Close()
		}, nil, all("begin", "applied")},
		"Admit":          {func() error { return e.guard.Admit(ctx, token.Token{Resource: resource, Number: 33, Holder: "h33"}) }, nil, all("begin", "undone")},
		"Admit, refused": {func() error { return e.guard.Admit(ctx, token.Token{Resource: resource, Number: 32, Holder: "h32"}) }, guard.ErrStale, all("begin", "undone")},
		"Join":           {inTx(func(tx pgx.Tx) error { return e.guard.Join(ctx, tx, resource) }), nil, all("admitted")},
		"Join, refused":  {inTx(func(tx pgx.Tx) error { return e.guard.Join(zombie, tx, resource) }), guard.ErrStale, nil},
		"Update inside a transaction": {inTx(func(tx pgx.Tx) error {
			return (&sqlguard.Guard{DB: tx, Schema: e.schema}).Update(ctx, resource, e.write(ctx, "x"))
		}), nil, all("admitted")},
	} {
		t.Run(name, func(t *testing.T) {
			steps := during(&h, func() { require.ErrorIs(t, c.call(), c.is) })
			require.Equal(t, c.steps, steps)
			for _, key := range h.Keys {
				require.Equal(t, h.Keys[0], key, "one transaction")
			}
		})
	}
	t.Run("a panic in fn is undone", func(t *testing.T) {
		steps := during(&h, func() {
			require.Panics(t, func() { _ = e.guard.Update(ctx, resource, func(pgx.Tx) error { panic("boo") }) })
		})
		require.Equal(t, all("begin", "admitted", "undone"), steps)
	})
	t.Run("a token that is new begins, claims, and begins again", func(t *testing.T) {
		ctx := h.Listen(e.ctx(34))
		steps := during(&h, func() { require.NoError(t, e.guard.Update(ctx, resource, e.write(ctx, "x"))) })
		require.Equal(t, all("begin", "undone", "begin", "undone", "begin", "admitted", "commit", "applied"), steps)
		require.NotEqual(t, h.Keys[0], h.Keys[2], "the claim is a transaction of its own")
	})
	for _, mode := range modes {
		t.Run("a COMMIT without an answer is unknown in mode "+mode.String(), func(t *testing.T) {
			pool, arm := deaf(t, "commit", mode)
			g := e.with(func(g *sqlguard.Guard) { g.DB = pool })
			ctx := h.Listen(e.ctx(35))
			require.NoError(t, g.Update(ctx, resource, e.write(ctx, "x")))
			arm.Store(true)
			steps := during(&h, func() { require.ErrorIs(t, g.Update(ctx, resource, e.write(ctx, "y")), guard.ErrUnknown) })
			require.Equal(t, all("begin", "admitted", "commit", "unknown"), steps)

			pool, arm = deaf(t, "'y'", mode)
			g = e.with(func(g *sqlguard.Guard) { g.DB = pool })
			set := e.sql("UPDATE accounts SET writer = $1 WHERE id = 42 OR writer = 'y'")
			_, err := g.On(resource).Exec(ctx, set, "x") // prepares, where the mode does
			require.NoError(t, err)
			if mode == pgx.QueryExecModeDescribeExec {
				return // it prepares again, and the word is in that packet
			}
			arm.Store(true)
			steps = during(&h, func() {
				_, err := g.On(resource).Exec(ctx, set, "'y'")
				require.ErrorIs(t, err, guard.ErrUnknown)
			})
			require.Equal(t, all("begin", "unknown"), steps)
		})
	}
}

// While a writer is held up at a step, others see what the step's name says.
func TestAStepIsWhereItsNameSays(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.admitted(33)
	pool, _ := wired(t, 1)
	var pid int
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid))
	g := e.with(func(g *sqlguard.Guard) { g.DB = pool })
	type sight struct{ transaction, locked, written bool }
	seen := map[point.Step]sight{}
	h := heard.Record{Look: func(step point.Step) {
		seen[step] = sight{
			query[bool](e, "SELECT state LIKE 'idle in transaction%' FROM pg_stat_activity WHERE pid = $1", pid),
			query[bool](e, "SELECT EXISTS (SELECT FROM pg_locks WHERE pid = $1 AND locktype = 'advisory' AND mode = 'ShareLock')", pid),
			e.writer() == "x",
		}
	}}
	ctx := h.Listen(e.ctx(33))
	require.NoError(t, g.Update(ctx, resource, e.write(ctx, "x")))
	require.Equal(t, map[point.Step]sight{
		point.Begin: {}, point.Admitted: {true, true, false}, point.Commit: {true, true, false}, point.Applied: {false, false, true},
	}, seen)

	clear(seen)
	require.Error(t, g.Update(ctx, resource, func(pgx.Tx) error { return errors.New("fn's own") }))
	require.Equal(t, sight{false, false, true}, seen[point.Undone])

	e.exec("UPDATE accounts SET writer = ''")
	clear(seen)
	_, err := g.On(resource).Exec(ctx, e.sql("UPDATE accounts SET writer = 'x' WHERE id = 42"))
	require.NoError(t, err)
	require.Equal(t, map[point.Step]sight{point.Begin: {}, point.Applied: {false, false, true}}, seen)
}

func TestAnUnguardedTwinWritesThroughEveryDoor(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	var seen []error
	told := e.with(func(g *sqlguard.Guard) {
		g.Observer.Observed = func(_ context.Context, err error) { seen = append(seen, err) }
		g.Observer.Refused = func(context.Context, error) { t.Error("refused") }
	})
	doorsTold := doors(e, told)
	for name, door := range doors(e, e.guard) {
		e.exec("DELETE FROM marks")
		require.NoError(t, door(e.ctx(34), "34"), name)
		require.ErrorIs(t, door(e.ctx(33), "stale"), guard.ErrStale, name)
		require.NoError(t, door(point.Observe(e.ctx(33)), "stale"), name)
		require.Equal(t, "stale", e.writer(), name)
		require.NoError(t, door(point.Observe(e.as(34, "impostor")), "impostor"), name)
		if name != "Admit, then write" { // the test's own look into the context
			require.NoError(t, door(point.Observe(e.bounded()), "nobody"), name)
			require.Equal(t, "nobody", e.writer(), name)
		}
		require.Equal(t, "34 h34", e.mark(resource), name)
		seen = nil
		require.NoError(t, doorsTold[name](point.Observe(e.ctx(33)), "told"), name)
		require.ErrorIs(t, errors.Join(seen...), guard.ErrStale, name)
	}
}
