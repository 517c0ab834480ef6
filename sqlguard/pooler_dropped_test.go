package sqlguard_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/sqlguard"
)

// Where the pooler has lost a session, or drops a client, it answers by itself
// (08P01), and knows nothing of the session's COMMIT.
//
// hazard P8
func TestAPoolerThatDropsItsClients(t *testing.T) {
	t.Parallel()
	for _, mode := range pooledModes {
		t.Run("in mode "+mode.String(), func(t *testing.T) {
			t.Parallel()
			e, url := newEnv(t), testenv.PgBouncer(t)
			pool := client(t, url, mode, clients)
			g := e.with(func(g *sqlguard.Guard) { g.DB = pool })
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
}
