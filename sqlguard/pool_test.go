package sqlguard_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard"
)

const retries = 50

// hazard G20
func TestZombieRetriesOnAPool(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run("fifty refusals of every door leave the pool its connection, in mode "+mode.String(), func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			e.admitted(34)
			pool, w := wired(t, 1, inMode(mode))
			g := e.with(func(g *sqlguard.Guard) { g.DB = pool })
			for name, door := range doors(e, g) {
				for range retries {
					require.ErrorIs(t, door(e.ctx(33), "zombie"), guard.ErrStale, name)
				}
			}
			require.Equal(t, int64(1), w.dials.Load())
		})
	}
	t.Run("an admission inside BeginQuery costs a connection each time", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		e.admitted(34)
		pool, w := wired(t, 1)
		for range retries {
			_, err := pool.BeginTx(t.Context(), pgx.TxOptions{BeginQuery: "BEGIN; SELECT " + e.schema + ".admit('account/42', 33, 'h33')"})
			require.ErrorContains(t, err, "ZF001")
		}
		require.Greater(t, w.dials.Load(), int64(retries/2), "the twin must make a storm of connections")
	})
	t.Run("a refusal, a conflict and a constraint leave prepared what is prepared", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		e.admitted(34)
		pool, w := wired(t, 1)
		on := e.with(func(g *sqlguard.Guard) { g.DB = pool }).On(resource)
		insert := e.sql("INSERT INTO accounts (id) VALUES ($1)")
		refused := func() { _, err := on.Exec(e.ctx(33), insert, 42); require.ErrorIs(t, err, guard.ErrStale) }
		twice := func() { _, err := on.Exec(e.ctx(34), insert, 42); require.ErrorContains(t, err, "23505") }
		require.Equal(t, int64(1), w.during(refused))
		require.Equal(t, int64(1), w.during(twice))
		require.Equal(t, int64(1), w.dials.Load())
	})
	t.Run("what was prepared against tables that have changed is prepared again", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		pool, _ := wired(t, 1)
		on := e.with(func(g *sqlguard.Guard) { g.DB = pool }).On(resource)
		all := e.sql("SELECT * FROM accounts")
		_, err := on.Exec(e.ctx(33), all)
		require.NoError(t, err)
		e.exec("ALTER TABLE accounts ADD extra text")
		_, err = on.Exec(e.ctx(33), all)
		require.ErrorContains(t, err, "cached plan must not change result type")
		_, err = on.Exec(e.ctx(33), all)
		require.NoError(t, err)
	})
}
