package sqlguard_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

// If the pooler has lost a session, or disconnects a client, it replies itself (08P01),
// and the result of the session's COMMIT is unknown.
//
// hazard P8
func TestStressAPoolerThatDropsItsClients(t *testing.T) {
	t.Parallel()
	inEveryMode(t, pooledModes, func(t *testing.T, mode pgx.QueryExecMode) {
		e, url := newEnv(t), testenv.PgBouncer(t)
		pool := client(t, url, mode, clients)
		g := e.by(pool)
		ctx := e.ctx(33)

		err := g.Update(ctx, resource, func(tx pgx.Tx) error {
			return errors.Join(e.write(ctx, "in a transaction")(tx), testenv.DropPooled(ctx, url), e.write(ctx, "x")(tx))
		})
		require.Equal(t, "08P01", outcomeCode(err), "%v", err)
		require.Empty(t, outcomes(err), "the commit was not sent: nothing applied")

		row := e.open(pgx.TxOptions{})
		_, err = row.Exec(ctx, e.sql("SELECT FROM accounts WHERE id = 42 FOR UPDATE"))
		require.NoError(t, err)
		late := async(func() error { return doors(e, g)["On.Exec"](ctx, "applied") })
		e.awaitWaiting(1)
		require.NoError(t, testenv.DropPooled(ctx, url))
		err = await(t, late)
		require.Equal(t, "08P01", outcomeCode(err), "%v", err)
		require.Equal(t, []error{guard.ErrUnknown}, outcomes(err))
		require.Empty(t, e.writer())
		require.NoError(t, row.Commit(ctx))
		e.await("what the session had got already", func() bool { return e.writer() == "applied" })
	})
}

// A session that is ended replies with 57P01, which the pooler forwards.
//
// hazard P8
func TestStressAnEndedSessionBehindAPooler(t *testing.T) {
	t.Parallel()
	inEveryMode(t, pooledModes, func(t *testing.T, mode pgx.QueryExecMode) {
		e := newEnv(t)
		endedSessions(t, e, e.by(client(t, testenv.PgBouncer(t), mode, clients)))
	})
}

// The session that is ended is the pooler's. The pooler reports that to the holder, and
// the next client gets a new session.
//
// hazards P8, G8
func TestStressPausedHolderIsEvictedBehindAPooler(t *testing.T) {
	t.Parallel()
	for _, mode := range pooledModes {
		for name := range pauses(nil) {
			inEnv(t, fmt.Sprintf("paused %s, in mode %s", name, mode), func(t *testing.T, e *env) {
				pool := client(t, testenv.PgBouncer(t), mode, clients)
				older := e.with(func(g *sqlguard.Guard) { g.DB, g.IdleTimeout = pool, -1 })
				newer := e.with(func(g *sqlguard.Guard) { g.DB, g.IdleTimeout = pool, short })
				e.admitted(33)
				ctx := e.ctx(33)
				wake := e.paused(ctx, name, func(fn func(pgx.Tx) error) error { return older.Update(ctx, resource, fn) })

				// The twin, which has no bound, waits.
				tok := token.Token{Resource: resource, Number: 34, Holder: "h34"}
				e.keepsWaiting(func(ctx context.Context) error { return older.Admit(ctx, tok) })

				require.NoError(t, newer.Admit(e.bounded(), tok))
				require.NoError(t, older.Update(e.ctx(34), resource, e.write(ctx, "B")))
				err := wake()
				require.Error(t, err)
				if name != "with an unread result" { // the connection's buffer is full, and the pooler closes it
					require.Equal(t, []error{guard.ErrEvicted}, outcomes(err), "%v", err)
				}
				require.Equal(t, "B", e.writer())
				require.ErrorIs(t, older.Update(ctx, resource, e.write(ctx, "A")), guard.ErrStale)
			})
		}
	}
}
