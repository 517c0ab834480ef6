package sqlguard_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

// The session that is ended is the pooler's: the holder hears of it from the
// pooler, and the next client gets a new one.
//
// hazards P8, G8
func TestPausedHolderIsEvictedBehindAPooler(t *testing.T) {
	t.Parallel()
	for _, mode := range pooledModes {
		for name := range pauses(nil) {
			t.Run(fmt.Sprintf("paused %s, in mode %s", name, mode), func(t *testing.T) {
				t.Parallel()
				e := newEnv(t)
				pool := client(t, testenv.PgBouncer(t), mode, clients)
				older := e.with(func(g *sqlguard.Guard) { g.DB, g.Idle = pool, -1 })
				newer := e.with(func(g *sqlguard.Guard) { g.DB, g.Idle = pool, short })
				e.admitted(33)
				begun, over := make(chan struct{}), make(chan struct{})
				wake := sync.OnceFunc(func() { close(over) })
				defer wake()
				ctx := e.ctx(33)
				late := async(func() error {
					return older.Update(ctx, resource, func(tx pgx.Tx) error { return pauses(e)[name](ctx, tx, begun, over) })
				})
				<-begun

				// The twin, which has no bound, waits.
				waiting, giveUp := context.WithTimeout(e.bounded(), 3*short)
				defer giveUp()
				tok := token.Token{Resource: resource, Number: 34, Holder: "h34"}
				require.ErrorIs(t, older.Admit(waiting, tok), context.DeadlineExceeded)

				require.NoError(t, newer.Admit(e.bounded(), tok))
				require.NoError(t, newer.Update(e.ctx(34), resource, e.write(ctx, "B")))
				wake()
				err := await(t, late)
				require.Error(t, err)
				if name != "with an unread result" { // the line is full, and the pooler closes it
					require.Equal(t, []error{guard.ErrEvicted}, outcomes(err), "%v", err)
				}
				require.Equal(t, "B", e.writer())
				require.ErrorIs(t, newer.Update(ctx, resource, e.write(ctx, "A")), guard.ErrStale)
			})
		}
	}
}
