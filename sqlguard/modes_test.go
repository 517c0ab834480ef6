package sqlguard_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/guard/guardtest"
	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

// doors are all ways through a guard. Each is one call that writes the name.
func doors(e *env, g *sqlguard.Guard) map[string]func(ctx context.Context, writer string) error {
	return doorsTo(e, g, resource)
}

// doorsTo are the doors of another resource, which write to account 42 too.
func doorsTo(e *env, g *sqlguard.Guard, resource string) map[string]func(ctx context.Context, writer string) error {
	set := e.sql("UPDATE accounts SET writer = $1 WHERE id = 42")
	return map[string]func(ctx context.Context, writer string) error{
		"Update": func(ctx context.Context, writer string) error {
			return g.Update(ctx, resource, e.write(ctx, writer))
		},
		"UpdateAll": func(ctx context.Context, writer string) error {
			return g.UpdateAll(ctx, []string{resource, resource}, e.write(ctx, writer))
		},
		"On.Exec": func(ctx context.Context, writer string) error {
			_, err := g.On(resource).Exec(ctx, set, writer)
			return err
		},
		"On.Query": func(ctx context.Context, writer string) error {
			rows, err := g.On(resource).Query(ctx, set+" RETURNING id", writer)
			if err != nil {
				return err
			}
			_, err = pgx.CollectRows(rows, pgx.RowTo[int64])
			return err
		},
		"On.QueryRow": func(ctx context.Context, writer string) error {
			var id int64
			return g.On(resource).QueryRow(ctx, set+" RETURNING id", writer).Scan(&id)
		},
		"On.SendBatch": func(ctx context.Context, writer string) error {
			b := &pgx.Batch{}
			b.Queue(set, "no token")
			b.Queue(set, writer)
			return g.On(resource).SendBatch(ctx, b).Close()
		},
		"On.CopyFrom": func(ctx context.Context, writer string) error {
			_, err := g.On(resource).Exec(ctx, e.sql("DELETE FROM accounts WHERE id = 42"))
			if err != nil {
				return err
			}
			_, err = g.On(resource).CopyFrom(ctx, pgx.Identifier{e.schema, "accounts"}, []string{"id", "writer"},
				pgx.CopyFromRows([][]any{{int64(42), writer}}))
			return err
		},
		"Admit, then write": func(ctx context.Context, writer string) error {
			tok, err := token.FromContext(ctx, resource)
			if err != nil {
				return err
			}
			if err := g.Admit(ctx, tok); err != nil {
				return err
			}
			_, err = g.On(resource).Exec(ctx, set, writer)
			return err
		},
		"Join": func(ctx context.Context, writer string) error {
			return pgx.BeginFunc(ctx, g.DB.(beginner), func(tx pgx.Tx) error {
				if err := g.Join(ctx, tx, resource); err != nil {
					return err
				}
				return e.write(ctx, writer)(tx)
			})
		},
	}
}

type beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

func TestEveryDoorInEveryMode(t *testing.T) {
	t.Parallel()
	inEveryMode(t, modes, func(t *testing.T, mode pgx.QueryExecMode) {
		e := newEnv(t)
		pool, w := wired(t, 1, inMode(mode))
		conn := acquire(t, pool)
		every := func(kind string, db sqlguard.DB) {
			for name, door := range doors(e, e.by(db)) {
				t.Run(name+" on "+kind, func(t *testing.T) { through(t, e, door) })
			}
		}
		every("a connection", conn.Conn())
		every("a pool's connection", conn)
		conn.Release()
		every("a pool", pool)
		require.Equal(t, int64(1), w.dials.Load(), "no refusal costs a connection")
	})
}

// through tries a door with a token, its successor, and the token again.
func through(t *testing.T, e *env, door func(context.Context, string) error) {
	t.Helper()
	e.exec("DELETE FROM marks")
	e.exec("INSERT INTO accounts (id) VALUES (42) ON CONFLICT DO NOTHING")
	raises(t, e, door, func() string { return e.mark(resource) })
}

// throughRow is through for a door of a Table, which raises the row's mark.
func throughRow(t *testing.T, e *env, door func(context.Context, string) error) {
	t.Helper()
	e.exec("DELETE FROM marks")
	e.exec("DELETE FROM accounts WHERE id = 42")
	e.exec("INSERT INTO accounts (id, last_token, last_holder) VALUES (42, 1, 'h1')")
	raises(t, e, door, e.row)
}

func raises(t *testing.T, e *env, door func(context.Context, string) error, mark func() string) {
	t.Helper()
	ctx := e.ctx(33)
	require.NoError(t, door(ctx, "33"))
	require.Equal(t, "33", e.writer())
	require.NoError(t, door(ctx, "33 again"))
	require.Equal(t, "33 again", e.writer())
	require.Equal(t, "33 h33", mark())
	require.NoError(t, door(e.ctx(34), "34"))
	err := door(ctx, "late")
	require.Equal(t, []error{guard.ErrStale}, outcomes(err), "%v", err)
	var stale *guard.StaleError
	require.ErrorAs(t, err, &stale)
	require.Equal(t, &guard.StaleError{Token: tokenOf(33), Mark: guard.Mark{Number: 34, Holder: "h34"}}, stale)
	err = door(e.as(34, "impostor"), "impostor") // hazard G4
	require.ErrorIs(t, err, guard.ErrCollision)
	require.ErrorIs(t, err, guard.ErrStale)
	require.ErrorIs(t, door(e.bounded(), "no token"), token.ErrMissing)
	require.Equal(t, "34", e.writer())
	require.Equal(t, "34 h34", mark())
}

func TestReportOnly(t *testing.T) {
	t.Parallel()
	inEnv(t, "a hook that panics costs no connection", func(t *testing.T, e *env) {
		e.admitted(34)
		boo := func(context.Context, error) { panic("boo") }
		for _, reportOnly := range []bool{true, false} {
			g := e.with(func(g *sqlguard.Guard) {
				g.DangerouslyReportOnly, g.Hooks = reportOnly, guard.Hooks{Refused: boo, Reported: boo}
			})
			for name, door := range doors(e, g) {
				require.Panics(t, func() { _ = door(e.ctx(33), "x") }, name)
				require.Zero(t, e.pool.Stat().AcquiredConns(), name)
			}
		}
	})
	for _, mode := range modes {
		inEnv(t, "judges all and refuses none in mode "+mode.String(), func(t *testing.T, e *env) {
			pool, _ := wired(t, 1, inMode(mode))
			g, seen := e.reporting(pool)
			g.Hooks.Refused = func(context.Context, error) { t.Error("refused") }
			for name, door := range doors(e, g) {
				if name == "On.CopyFrom" || name == "Admit, then write" {
					continue // compared more than once
				}
				e.exec("DELETE FROM marks")
				*seen = nil
				require.NoError(t, door(e.ctx(34), "34"), name)
				require.Empty(t, *seen, name)
				require.NoError(t, door(e.ctx(33), "stale"), name)
				require.Equal(t, "stale", e.writer(), name)
				require.Len(t, *seen, 1, name)
				require.ErrorIs(t, (*seen)[0], guard.ErrStale, name)
				require.NoError(t, door(e.as(34, "impostor"), "impostor"), name)
				require.ErrorIs(t, (*seen)[1], guard.ErrCollision, name)
				require.NoError(t, door(e.bounded(), "no token"), name)
				require.ErrorIs(t, (*seen)[2], token.ErrMissing, name)
				require.Equal(t, "no token", e.writer(), name)
				require.Equal(t, "34 h34", e.mark(resource), name)
			}
		})
	}
}

// hazard G13
func TestStressHostileNames(t *testing.T) {
	t.Parallel()
	t.Run("of a schema", func(t *testing.T) {
		t.Parallel()
		home := newEnv(t)
		for _, name := range []string{`we"ird'; DROP SCHEMA x; --`, `"fencepost".`, `$1 @name \ %s`, "größe", "select"} {
			e := *home
			e.schema = home.schema + name
			if len(e.schema) > 63 {
				e.schema = e.schema[:63]
			}
			tables, err := migrations.Set{Schema: e.schema}.SQL()
			require.NoError(t, err, name)
			_, err = e.pool.Exec(t.Context(), "CREATE SCHEMA "+pgx.Identifier{e.schema}.Sanitize()+";\n"+tables)
			require.NoError(t, err, name)
			t.Cleanup(func() {
				_, err := e.pool.Exec(context.WithoutCancel(t.Context()), "DROP SCHEMA "+pgx.Identifier{e.schema}.Sanitize()+" CASCADE")
				require.NoError(t, err)
			})
			pgtest.Accounts(t, e.pool, e.schema)
			for _, mode := range quotingModes {
				pool, _ := wired(t, 1, inMode(mode))
				e.guard = &sqlguard.Guard{DB: pool, Schema: e.schema}
				for _, door := range doors(&e, e.guard) {
					through(t, &e, door)
				}
				require.Empty(t, home.mark(resource), "the other schema has marks of its own")
			}
		}
	})
	inEnv(t, "the naive way executes the name", func(t *testing.T, e *env) {
		schema := e.schema + ".admit('account/42', 33, 'h33'); UPDATE " + e.schema + ".accounts SET writer = 'injected'; --"
		_, err := e.pool.Exec(t.Context(), "SELECT "+schema+".admit('account/42', 33, 'h33')")
		require.NoError(t, err)
		require.Equal(t, "injected", e.writer(), "the twin must be injected")
	})
}

func TestGuardIsAStore(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	guardtest.TestStore(t, func(*testing.T) guard.Store { return e.guard })
}
