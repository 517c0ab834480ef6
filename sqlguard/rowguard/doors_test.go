package rowguard_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/internal/test/hooktest"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/sqlguard/rowguard"
	"github.com/fencepost/fencepost/token"
)

// wrapper is a DB that exposes only SendBatch to the guard.
type wrapper struct{ *pgx.Conn }

// door is a way to write account 42 through a Table.
type door struct {
	manual bool // a hand-written statement with a Fence
	twice  bool // the marks are compared twice
	write  func(ctx context.Context, rows *rowguard.Table, writer string) error
}

func (e env) doors() map[string]door {
	set := func(writer string) rowguard.Set { return rowguard.Set{"writer": writer} }
	manual := func(as, alias string) door {
		return door{manual: true, write: func(ctx context.Context, rows *rowguard.Table, writer string) error {
			own, err := rows.Fence(ctx, 42)
			if err != nil {
				return err
			}
			f := own.Clauses(alias, writer)
			text := "UPDATE fence.accounts" + as + " SET writer = $1, " + f.Set + " WHERE " + f.Where
			tag, err := rows.Guard.DB.(execer).Exec(ctx, e.sql(text), f.Args...)
			if err == nil && tag.RowsAffected() == 0 {
				err = rows.Explain(ctx, 42)
			}
			return err
		}}
	}
	return map[string]door{
		"Update": {write: func(ctx context.Context, rows *rowguard.Table, writer string) error {
			return rows.Update(ctx, 42, set(writer))
		}},
		"Upsert": {write: func(ctx context.Context, rows *rowguard.Table, writer string) error {
			return rows.Upsert(ctx, 42, set(writer))
		}},
		"Update, protected": {write: func(ctx context.Context, rows *rowguard.Table, writer string) error {
			protected := *rows
			protected.Protected = true
			return protected.Update(ctx, 42, set(writer))
		}},
		"Delete, then Insert": {twice: true, write: func(ctx context.Context, rows *rowguard.Table, writer string) error {
			if err := rows.Delete(ctx, 42); err != nil {
				return err
			}
			return rows.Insert(ctx, 42, set(writer))
		}},
		"Claim, then Update": {twice: true, write: func(ctx context.Context, rows *rowguard.Table, writer string) error {
			tok, err := token.FromContext(ctx, resource)
			if err != nil {
				return err
			}
			if err := rows.Claim(ctx, tok); err != nil {
				return err
			}
			return rows.Update(ctx, 42, set(writer))
		}},
		"Fence": manual(" AS a", "a"), "Fence, without an alias": manual("", ""),
	}
}

func TestEveryDoor(t *testing.T) {
	t.Parallel()
	inEveryMode(t, modes, func(t *testing.T, mode pgx.QueryExecMode) {
		e := newEnv(t)
		pool := e.connect(1, mode)
		conn, err := pool.Acquire(e.base)
		require.NoError(t, err)
		plain := conn.Conn()
		for kind, db := range map[string]sqlguard.DB{"a connection": plain, "a pool's connection": conn, "a wrapper": wrapper{plain}} {
			e.through(t, " on "+kind, e.over(db))
		}
		conn.Release()
		e.through(t, " on a pool", e.over(pool))
		require.Equal(t, int64(1), pool.Stat().NewConnsCount(), "no refusal costs a connection")
	})
}

// through tries every door with a token, its successor, the token again, an impostor, and
// without a token.
func (e env) through(t *testing.T, on string, rows *rowguard.Table) {
	t.Helper()
	for name, d := range e.doors() {
		t.Run(name+on, func(t *testing.T) {
			e.exec("DELETE FROM fence.marks; DELETE FROM fence.accounts WHERE id = 42; INSERT INTO fence.accounts (id, last_token, last_holder) VALUES (42, 1, 'h1')")
			require.NoError(t, d.write(e.ctx(33), rows, "33"))
			require.NoError(t, d.write(e.ctx(33), rows, "again"))
			require.Equal(t, "33 h33 again", e.row())
			require.NoError(t, d.write(e.ctx(34), rows, "34"))
			err := d.write(e.ctx(33), rows, "late")
			require.Equal(t, []error{guard.ErrStale}, outcomes(err), "%v", err)
			var stale *guard.StaleError
			require.ErrorAs(t, err, &stale)
			require.Equal(t, &guard.StaleError{Token: tokenOf(33), Mark: guard.Mark{Number: 34, Holder: "h34"}}, stale)
			require.ErrorIs(t, d.write(e.impostor(34), rows, "impostor"), guard.ErrCollision) // hazard G4
			require.ErrorIs(t, d.write(e.base, rows, "no token"), token.ErrMissing)
			require.Equal(t, "34 h34 34", e.row())
		})
	}
}

// impostor returns a context with another token of that number.
func (e env) impostor(number int64) context.Context {
	return token.NewContext(e.base, token.Token{Resource: resource, Number: number, Holder: "impostor"})
}

func TestReportOnly(t *testing.T) {
	t.Parallel()
	var all [5][]error
	reporting := func(seen *[]error) func(*sqlguard.Guard) {
		return func(g *sqlguard.Guard) {
			g.DangerouslyReportOnly = true
			g.Hooks.Reported = func(_ context.Context, err error) { *seen = append(*seen, err) }
			g.Hooks.Refused = func(context.Context, error) { t.Error("refused") }
		}
	}
	for i, mode := range modes {
		t.Run("judges all, refuses none and lowers no mark in mode "+mode.String(), func(t *testing.T) {
			t.Parallel()
			e, seen := newEnv(t), &all[i]
			rows := e.over(e.connect(1, mode), reporting(seen))
			for name, d := range e.doors() {
				if d.twice {
					continue // it would report twice
				}
				e.exec("DELETE FROM fence.marks; UPDATE fence.accounts SET last_token = 0, last_holder = '' WHERE id = 42")
				*seen = nil
				for _, c := range []struct {
					ctx    context.Context
					writer string
					seen   error
				}{{e.ctx(34), "34", nil}, {e.ctx(33), "stale", guard.ErrStale}, {e.impostor(34), "impostor", guard.ErrCollision}, {e.base, "none", token.ErrMissing}} {
					require.NoError(t, d.write(c.ctx, rows, c.writer), name)
					require.Equal(t, "34 h34 "+c.writer, e.row(), name)
					if c.seen == nil || d.manual && c.seen != token.ErrMissing { // a hand-written statement is not seen
						require.Empty(t, *seen, name)
						continue
					}
					require.Len(t, *seen, 1, name)
					require.ErrorIs(t, (*seen)[0], c.seen, name)
					*seen = nil
				}
			}
		})
	}
	inEnv(t, "reports the row's mark if the marks table admits, and one mark only", func(t *testing.T, e env) {
		var seen []error
		rows := e.over(e.pool, reporting(&seen))
		require.NoError(t, e.Update(e.ctx(35), 42, x)) // unclaimed: only the row's mark is raised
		require.NoError(t, rows.Claim(e.base, tokenOf(34)))
		require.NoError(t, rows.Delete(e.ctx(34), 42))
		require.Len(t, seen, 2)
		for _, err := range seen {
			var stale *guard.StaleError
			require.ErrorAs(t, err, &stale)
			require.Equal(t, guard.Mark{Number: 35, Holder: "h35"}, stale.Mark)
		}
		seen = nil
		require.ErrorIs(t, rows.Update(e.ctx(33), 42, x), guard.ErrRowNotFound, "an ordinary error remains")
		require.Len(t, seen, 1, "it would have been stale")
		seen = nil
		require.NoError(t, e.Guard.Admit(e.base, tokenOf(36)))
		require.NoError(t, rows.Insert(e.ctx(35), 42, x))
		require.Len(t, seen, 1, "by the marks table alone")
	})
	inEnv(t, "a hook that panics costs no connection", func(t *testing.T, e env) {
		e.claimed(34)
		boo := func(context.Context, error) { panic("boo") }
		for _, reportOnly := range []bool{true, false} {
			rows := e.over(e.pool, func(g *sqlguard.Guard) {
				g.DangerouslyReportOnly, g.Hooks = reportOnly, guard.Hooks{Refused: boo, Reported: boo}
			})
			for name, d := range e.doors() {
				if d.manual {
					continue
				}
				e.exec("INSERT INTO fence.accounts (id, last_token, last_holder) VALUES (42, 34, 'h34') ON CONFLICT (id) DO UPDATE SET last_token = 34, last_holder = 'h34'")
				require.Panics(t, func() { _ = d.write(e.ctx(33), rows, "x") }, name)
				require.Zero(t, e.pool.Stat().AcquiredConns(), name)
			}
		}
	})
}

func TestAnUnguardedTwinWritesThroughEveryDoor(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for name, d := range e.doors() {
		if strings.HasPrefix(name, "Claim") {
			continue // the test reads the context itself
		}
		e.exec("DELETE FROM fence.marks; UPDATE fence.accounts SET last_token = 1, last_holder = 'h1' WHERE id = 42")
		require.NoError(t, d.write(e.ctx(34), e.Table, "34"))
		require.ErrorIs(t, d.write(e.ctx(33), e.Table, "stale"), guard.ErrStale, name)
		for writer, ctx := range map[string]context.Context{"stale": e.ctx(33), "none": e.base} {
			require.NoError(t, d.write(failpoint.Unguarded(ctx), e.Table, writer), name)
			require.Equal(t, writer, e.writer(), name)
		}
		if !d.twice { // a new row has the mark of its writer
			require.Contains(t, e.row(), "34 h34 ", name)
		}
	}
}

func TestAProtectedTable(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.exec("SELECT fence.protect('fence.accounts', $$'account/' || id$$)")
	rows := e.protected()
	for name, d := range e.doors() {
		if !d.manual { // such a statement goes through Guard.On there, or runs after Join
			require.NoError(t, d.write(e.ctx(33), rows, "33"), name)
		}
	}
	e.claimed(34)
	require.ErrorIs(t, rows.Update(e.ctx(33), 42, x), guard.ErrStale)
	err := e.Update(e.ctx(34), 42, x)
	require.ErrorContains(t, err, "ZF003", "Protected is not set")
	require.Empty(t, outcomes(err))
	own, err := rows.Fence(e.ctx(34), 42)
	require.NoError(t, err)
	f := own.Clauses("a")
	_, err = e.Guard.On(resource).Exec(e.ctx(34), e.sql("UPDATE fence.accounts AS a SET writer = 'on', "+f.Set+" WHERE "+f.Where), f.Args...)
	require.NoError(t, err)
	require.Equal(t, "on", e.writer())
}

func TestSteps(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.claimed(33)
	var h hooktest.Record
	ctx, zombie := h.Listen(e.ctx(33)), h.Listen(e.ctx(32))
	applied, undone := []string{"begin applied"}, []string{"begin undone"}
	for name, c := range map[string]struct {
		call  func() error
		is    error
		steps []string // of each transaction
	}{
		"Update":              {func() error { return e.Update(ctx, 42, x) }, nil, applied},
		"Update, refused":     {func() error { return e.Update(zombie, 42, x) }, guard.ErrStale, undone},
		"Update, protected":   {func() error { return e.protected().Update(ctx, 42, x) }, nil, applied},
		"Upsert":              {func() error { return e.Upsert(ctx, 42, x) }, nil, applied},
		"Upsert, refused":     {func() error { return e.Upsert(zombie, 42, x) }, guard.ErrStale, undone},
		"Claim":               {func() error { return e.Claim(ctx, tokenOf(33)) }, nil, undone},
		"Claim, refused":      {func() error { return e.Claim(ctx, tokenOf(32)) }, guard.ErrStale, undone},
		"Claim, report-only":  {func() error { return e.Claim(failpoint.Unguarded(ctx), tokenOf(32)) }, nil, undone},
		"Update, report-only": {func() error { return e.Update(failpoint.Unguarded(zombie), 42, x) }, nil, applied},
		"Update, inside a transaction": {func() error {
			return pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error { return e.over(tx).Update(ctx, 42, x) })
		}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h.Steps, h.Keys = nil, nil
			require.ErrorIs(t, c.call(), c.is)
			require.Equal(t, c.steps, h.Transactions())
		})
	}
}
