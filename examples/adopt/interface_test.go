package adopt_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/examples/adopt"
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

// short is a program's lock, which ends while its holder is paused.
type short struct{ mutex func() *redsync.Mutex }

func (s short) Lock(ctx context.Context) (unlock func(), err error) {
	mutex := s.mutex()
	return func() { _, _ = mutex.UnlockContext(context.WithoutCancel(ctx)) }, mutex.LockContext(ctx)
}

// A holder is paused between its read and its write. Meanwhile its lock ends, and another
// holder writes.
func TestALateWriterBehindAnInterfaceIsRefused(t *testing.T) {
	t.Parallel()
	const read, set = "SELECT balance FROM accounts WHERE id = 42", "UPDATE accounts SET balance = $1 WHERE id = 42"
	for _, fenced := range []bool{true, false} {
		t.Run(map[bool]string{true: "refused", false: "the twin without a fence is corrupted"}[fenced], func(t *testing.T) {
			t.Parallel()
			pool := database(t)
			fence := &sqlguard.Guard{DB: pool, IdleTimeout: time.Hour}
			client, prefix := testenv.Redis(t)
			locks := redsync.New(goredis.NewPool(client))
			lock := short{func() *redsync.Mutex {
				return locks.NewMutex(prefix+"account/42", redsync.WithExpiry(50*time.Millisecond), redsync.WithTries(10_000))
			}}
			add := func(amount int, meanwhile func()) func(ctx context.Context) error {
				return func(ctx context.Context) error {
					seen := pgtest.Query[int](t, pool, read)
					meanwhile()
					if !fenced {
						_, err := pool.Exec(ctx, set, seen+amount)
						return err
					}
					return fence.Update(ctx, "account/42", func(tx pgx.Tx) error { _, err := tx.Exec(ctx, set, seen+amount); return err })
				}
			}
			late := adopt.Locked(t.Context(), lock, fence, add(-50, func() {
				require.NoError(t, adopt.Locked(t.Context(), lock, fence, add(10, func() {})))
			}))
			if !fenced {
				require.NoError(t, late)
				require.Equal(t, 50, pgtest.Query[int](t, pool, read), "the successor's value is overwritten")
				return
			}
			require.ErrorIs(t, late, guard.ErrStale)
			require.Equal(t, 110, pgtest.Query[int](t, pool, read), "the successor's value is kept")

			outer := t.Context()
			require.ErrorIs(t, adopt.Locked(outer, lock, fence, func(context.Context) error { return add(10, func() {})(outer) }), token.ErrMissing)
		})
	}
}
