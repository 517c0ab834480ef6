package sqlguard_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

func TestReportOnlyOfATable(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run("judges all, refuses none and lowers no mark in mode "+mode.String(), func(t *testing.T) {
			t.Parallel()
			e := newRows(t)
			pool, _ := wired(t, 1, inMode(mode))
			var seen []error
			accounts := e.table(e.with(func(g *sqlguard.Guard) {
				g.DB, g.DangerouslyReportOnly = pool, true
				g.Hooks.Reported = func(_ context.Context, err error) { seen = append(seen, err) }
				g.Hooks.Refused = func(context.Context, error) { t.Error("refused") }
			}))
			for name, door := range rowDoors(e.env, accounts) {
				if name == "Claim, then Update" || name == "Delete, then Insert" {
					continue // compared more than once
				}
				e.exec("DELETE FROM marks")
				e.exec("UPDATE accounts SET last_token = 0, last_holder = '' WHERE id = 42")
				seen = nil
				require.NoError(t, door(e.ctx(34), "34"), name)
				require.Empty(t, seen, name)
				require.Equal(t, "34 h34", e.row(), name)
				require.NoError(t, door(e.ctx(33), "stale"), name)
				require.Equal(t, "stale", e.writer(), name)
				require.NoError(t, door(e.as(34, "impostor"), "impostor"), name)
				require.Equal(t, "impostor", e.writer(), name)
				require.NoError(t, door(e.bounded(), "no token"), name)
				require.Equal(t, "no token", e.writer(), name)
				require.Equal(t, "34 h34", e.row(), name)
				if name == "Fence" || name == "Fence, by name" {
					require.Len(t, seen, 1, "a hand-written statement is not seen, a missing token is")
					continue
				}
				require.Len(t, seen, 3, name)
				require.ErrorIs(t, seen[0], guard.ErrStale, name)
				require.ErrorIs(t, seen[1], guard.ErrCollision, name)
				require.ErrorIs(t, seen[2], token.ErrMissing, name)
			}
		})
	}
	t.Run("reports the row's mark if the marks table admits, and one mark only", func(t *testing.T) {
		t.Parallel()
		e := newRows(t)
		var seen []error
		accounts := e.table(e.with(func(g *sqlguard.Guard) {
			g.DangerouslyReportOnly = true
			g.Hooks.Reported = func(_ context.Context, err error) { seen = append(seen, err) }
		}))
		require.NoError(t, e.accounts.Update(e.ctx(35), 42, setWriter)) // unclaimed: only the row's mark is raised
		require.NoError(t, accounts.Claim(e.bounded(), tokenOf(34)))
		require.NoError(t, accounts.Delete(e.ctx(34), 42))
		require.Len(t, seen, 2)
		for _, err := range seen {
			var stale *guard.StaleError
			require.ErrorAs(t, err, &stale)
			require.Equal(t, guard.Mark{Number: 35, Holder: "h35"}, stale.Mark)
		}
		seen = nil
		require.ErrorIs(t, accounts.Update(e.ctx(33), 42, setWriter), guard.ErrRowNotFound, "an ordinary error remains")
		require.Len(t, seen, 1, "it would have been stale")
	})
	t.Run("a hook that panics costs no connection", func(t *testing.T) {
		t.Parallel()
		e := newRows(t)
		e.claimed(34)
		boo := func(context.Context, error) { panic("boo") }
		for _, reportOnly := range []bool{true, false} {
			accounts := e.table(e.with(func(g *sqlguard.Guard) {
				g.DangerouslyReportOnly, g.Hooks = reportOnly, guard.Hooks{Refused: boo, Reported: boo}
			}))
			for name, door := range rowDoors(e.env, accounts) {
				if name == "Fence" || name == "Fence, by name" {
					continue
				}
				e.exec("INSERT INTO accounts (id, last_token, last_holder) VALUES (42, 34, 'h34') ON CONFLICT (id) DO UPDATE SET last_token = 34, last_holder = 'h34'")
				require.Panics(t, func() { _ = door(e.ctx(33), "x") }, name)
				require.Zero(t, e.pool.Stat().AcquiredConns(), name)
			}
			require.Panics(t, func() { _ = accounts.Claim(e.bounded(), tokenOf(33)) })
			require.Zero(t, e.pool.Stat().AcquiredConns())
		}
	})
}

func TestAnUnguardedTwinWritesThroughEveryRowDoor(t *testing.T) {
	t.Parallel()
	e := newRows(t)
	for name, door := range rowDoors(e.env, e.accounts) {
		if name == "Claim, then Update" {
			continue // the test reads the context itself
		}
		e.exec("DELETE FROM marks")
		e.exec("UPDATE accounts SET last_token = 1, last_holder = 'h1' WHERE id = 42")
		require.NoError(t, door(e.ctx(34), "34"))
		require.ErrorIs(t, door(e.ctx(33), "stale"), guard.ErrStale, name)
		require.NoError(t, door(failpoint.Unguarded(e.ctx(33)), "stale"), name)
		require.Equal(t, "stale", e.writer(), name)
		require.NoError(t, door(failpoint.Unguarded(e.bounded()), "no token"), name)
		require.Equal(t, "no token", e.writer(), name)
		if name != "Delete, then Insert" { // a new row has the mark of its writer
			require.Equal(t, "34 h34", e.row(), name)
		}
	}
}

func TestAProtectedTable(t *testing.T) {
	t.Parallel()
	e := newRows(t)
	e.exec("SELECT "+e.schema+".protect($1, $2)", e.schema+".accounts", "'account/' || id")
	accounts := *e.accounts
	accounts.Protected = true
	for name, door := range rowDoors(e.env, &accounts) {
		if name == "Fence" || name == "Fence, by name" {
			continue // a hand-written statement goes through Guard.On there, or runs after Join
		}
		require.NoError(t, door(e.ctx(33), "33"), name)
	}
	e.claimed(34)
	require.ErrorIs(t, accounts.Update(e.ctx(33), 42, setWriter), guard.ErrStale)
	unguarded(t, e.accounts.Update(e.ctx(34), 42, setWriter)) // Protected is not set
	own, err := accounts.Fence(e.ctx(34), 42)
	require.NoError(t, err)
	f := own.Clauses("a")
	_, err = e.guard.On(resource).Exec(e.ctx(34), e.sql("UPDATE accounts AS a SET writer = 'on', "+f.Set+" WHERE "+f.Where), f.Args...)
	require.NoError(t, err)
	require.Equal(t, "on", e.writer())
}
