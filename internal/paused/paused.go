// Package paused tells, as a test, the story that Fencepost is about: a holder
// is paused past the end of its lease, a successor writes, the holder wakes up
// and writes too. It is told for any lock, over every way to the row.
package paused

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

const resource = "account/42"

// Lock waits for the resource and returns a token for it. Nothing renews the
// lock that is behind it: its holder is asleep from then on.
type Lock func(ctx context.Context, resource, holder string) (token.Token, error)

// Story runs the story on a real PostgreSQL with the lock that newLock makes:
// refused with the guard, corrupted every time in its observe-only twin.
func Story(t *testing.T, newLock func(t *testing.T, fence *sqlguard.Guard) Lock) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			t.Run("the late write is refused", func(t *testing.T) {
				t.Parallel()
				balance, err := tell(t, newLock, way, false)
				way.refused(t, err)
				require.Equal(t, 110, balance, "the successor's value stands")
			})
			t.Run("observe-only, the same code is corrupted", func(t *testing.T) {
				t.Parallel()
				balance, err := tell(t, newLock, way, true)
				require.NoError(t, err)
				require.Equal(t, 50, balance, "the successor's value is overwritten")
			})
		})
	}
}

// tell returns the balance at the end, and what the paused writer was answered.
func tell(t *testing.T, newLock func(*testing.T, *sqlguard.Guard) Lock, w way, observe bool) (int, error) {
	ctx := t.Context()
	pool, schema := testenv.Postgres(t)
	fence := &sqlguard.Guard{DB: pool, Schema: schema, DangerouslyObserve: observe, Observer: quiet}
	accounts := newAccounts(t, pool, schema)
	lock, write := newLock(t, fence), w.open(t, fence, accounts)

	a, err := lock(ctx, resource, "writer-a")
	require.NoError(t, err)
	seenByA := accounts.balance(t) // 100, and here A falls asleep

	b, err := lock(ctx, resource, "writer-b") // waits until A's lock has run out
	require.NoError(t, err)
	require.NoError(t, write(token.NewContext(ctx, b), accounts.balance(t)+10))

	err = write(token.NewContext(ctx, a), seenByA-50) // A wakes up
	return accounts.balance(t), err
}

// Short waits for iss like a locker, with a lease that ends soon and is not
// renewed.
func Short(iss token.Issuer) Lock {
	return func(ctx context.Context, resource, holder string) (token.Token, error) {
		for {
			grant, err := iss.Acquire(ctx, resource, holder, 50*time.Millisecond)
			if !errors.Is(err, token.ErrHeld) {
				return grant.Token, err
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

var quiet = guard.Observer{Observed: func(context.Context, error) {}}
