package sqlguard_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard"
)

// A token that nobody claimed, and a first transaction that lasts longer than
// Idle: to the others its writer must not look like an older one.
func TestFirstTransactionOutlastsIdle(t *testing.T) {
	t.Parallel()
	// long writes, busy all the time, for three times Idle, and tells when it
	// has begun.
	long := func(e *env, g *sqlguard.Guard) <-chan error {
		begun, ctx := make(chan struct{}), e.ctx(34)
		done := async(func() error {
			return g.Update(ctx, resource, func(tx pgx.Tx) error {
				close(begun)
				_, err := tx.Exec(ctx, "SELECT pg_sleep($1)", (3 * short).Seconds())
				return err
			})
		})
		<-begun
		return done
	}
	t.Run("a peer of the same token does not end it", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		g := e.with(func(g *sqlguard.Guard) { g.Idle = short })
		first := long(e, g)
		require.NoError(t, g.Update(e.ctx(34), resource, e.write(e.bounded(), "peer")))
		require.NoError(t, await(t, first))
	})
	t.Run("an older writer does not end it", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		g := e.with(func(g *sqlguard.Guard) { g.Idle = short })
		first := long(e, g)
		require.ErrorIs(t, g.Update(e.ctx(33), resource, e.write(e.bounded(), "zombie")), guard.ErrStale)
		require.NoError(t, await(t, first))
	})
	t.Run("nor where it raised inside its own transaction, which the older one waits for", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		e.admitted(32)
		tx := e.open(pgx.TxOptions{})
		require.NoError(t, e.guard.Join(e.ctx(34), tx, resource))
		g := e.with(func(g *sqlguard.Guard) { g.Idle = short })
		late := async(func() error { return g.Update(e.ctx(33), resource, e.write(e.bounded(), "zombie")) })
		time.Sleep(3 * short)
		require.NoError(t, tx.Commit(e.bounded()))
		require.ErrorIs(t, await(t, late), guard.ErrStale)
	})
}
