package sqlguard_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

// hazard G13
func TestHostileNames(t *testing.T) {
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
			db := stdlib.OpenDBFromPool(e.pool)
			require.NoError(t, migrations.Set{Schema: e.schema}.Up(t.Context(), db), name)
			require.NoError(t, db.Close())
			t.Cleanup(func() {
				_, err := e.pool.Exec(context.WithoutCancel(t.Context()), "DROP SCHEMA "+pgx.Identifier{e.schema}.Sanitize()+" CASCADE")
				require.NoError(t, err)
			})
			e.exec("CREATE TABLE accounts (id bigint PRIMARY KEY, balance bigint NOT NULL DEFAULT 0, writer text NOT NULL DEFAULT '')")
			for _, mode := range modes {
				pool, _ := wired(t, 1, inMode(mode))
				e.guard = &sqlguard.Guard{DB: pool, Schema: e.schema}
				for _, door := range doors(&e, e.guard) {
					through(t, &e, door)
				}
				require.Empty(t, home.mark(resource), "the other schema has marks of its own")
			}
		}
	})
	t.Run("the naive way runs what the name says", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		schema := e.schema + ".admit('account/42', 33, 'h33'); UPDATE " + e.schema + ".accounts SET writer = 'injected'; --"
		_, err := e.pool.Exec(t.Context(), "SELECT "+schema+".admit('account/42', 33, 'h33')")
		require.NoError(t, err)
		require.Equal(t, "injected", e.writer(), "the twin must be injected")
	})
	t.Run("of resources and holders", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		for _, mode := range modes {
			pool, _ := wired(t, 1, inMode(mode))
			g := e.with(func(g *sqlguard.Guard) { g.DB = pool })
			for _, name := range []string{`x'; DROP TABLE accounts; --`, `\'`, `$1`, `a b`, `größe/🙂`, `%s`} {
				newer, older := token.Token{Resource: name, Number: 34, Holder: name + " B"}, token.Token{Resource: name, Number: 33, Holder: name}
				ctx := token.NewContext(e.bounded(), newer)
				require.NoError(t, g.Update(ctx, name, e.write(ctx, name)), name)
				_, err := g.On(name).Exec(token.NewContext(ctx, older), e.sql("UPDATE accounts SET writer = 'A'"))
				var stale *guard.StaleError
				require.ErrorAs(t, err, &stale, name)
				require.Equal(t, guard.Mark{Number: 34, Holder: name + " B"}, stale.Mark, "its holder may have spaces")
				require.Equal(t, name, e.writer())
			}
		}
	})
}
