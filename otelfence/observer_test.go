package otelfence_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/token"
)

func TestALeaseIsCountedAndTimed(t *testing.T) {
	observed(t, false, func(t *testing.T, b *bench) {
		go func() { _ = b.Hold(t.Context(), account, pause(2*time.Second)) }()
		synctest.Wait()
		require.NoError(t, b.Hold(t.Context(), account, pause(500*time.Millisecond)))
		synctest.Wait()
		got := b.points(t)
		require.Equal(t, []point{{"", 2, 0}}, got["fencepost.lock.acquired"])
		require.Equal(t, []point{{"fencepost.outcome=acquired", 2, 2}}, got["fencepost.lock.wait"])
		require.Equal(t, []point{{"fencepost.outcome=released", 2, 2.5}}, got["fencepost.lock.hold"])
		require.Equal(t, []point{{"fencepost.outcome=confirmed", 2, 0}}, got["fencepost.lock.released"])
		require.Positive(t, got["fencepost.lock.renewed"][0].count)
		require.Len(t, got, 5, "nothing else has happened")
	})
}

func TestWhoGivesUpIsCountedByReason(t *testing.T) {
	observed(t, false, func(t *testing.T, b *bench) {
		holder, err := b.Acquire(t.Context(), account)
		require.NoError(t, err)
		require.ErrorIs(t, b.TryHold(t.Context(), account, pause(0)), token.ErrHeld)
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		require.ErrorIs(t, b.Hold(ctx, account, pause(0)), context.DeadlineExceeded)
		short, broken := *b.Locker, *b.Locker
		short.Wait = 3 * time.Second
		require.ErrorIs(t, short.Hold(t.Context(), account, pause(0)), token.ErrWaitEnded)
		broken.Issuer = refusing{}
		require.ErrorIs(t, broken.Hold(t.Context(), account, pause(0)), errUnreachable)
		require.NoError(t, holder.Release(t.Context()))

		got := b.points(t)
		require.ElementsMatch(t, []point{
			{"fencepost.reason=held", 1, 0},
			{"fencepost.reason=wait_ended", 1, 0},
			{"fencepost.reason=cancelled", 1, 0},
			{"fencepost.reason=error", 1, 0},
		}, got["fencepost.lock.gave_up"])
		require.Contains(t, got["fencepost.lock.wait"], point{"fencepost.outcome=gave_up", 4, 7})
	})
}

// refusing is an issuer that cannot be reached at all.
type refusing struct{ cutOff }

func (refusing) Acquire(context.Context, string, string, time.Duration) (token.Grant, error) {
	return token.Grant{}, errUnreachable
}

func (refusing) Release(context.Context, token.Token) error { return errUnreachable }

// It is held once, although it is both lost and released.
func TestALossIsCountedAndTimedOnce(t *testing.T) {
	observed(t, false, func(t *testing.T, b *bench) {
		b.Issuer = cutOff{b.issuer}
		err := b.Hold(t.Context(), account, func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(time.Second)
			return nil
		})
		require.ErrorIs(t, err, token.ErrLost)
		synctest.Wait()
		got := b.points(t)
		require.Equal(t, []point{{"", 1, 0}}, got["fencepost.lock.lost"])
		require.Equal(t, []point{{"fencepost.outcome=lost", 1, 0.9}}, got["fencepost.lock.hold"])
		require.Equal(t, []point{{"fencepost.outcome=unconfirmed", 1, 0}}, got["fencepost.lock.released"])
		require.Greater(t, got["fencepost.lock.endangered"][0].count, int64(1), "it was warned of")
		require.NotContains(t, got, "fencepost.lock.renewed")
	})
}

func TestAReleaseThatIsNotConfirmedSaysSo(t *testing.T) {
	observed(t, false, func(t *testing.T, b *bench) {
		err := b.Hold(t.Context(), account, func(ctx context.Context) error {
			tok, err := token.FromContext(ctx, account)
			require.NoError(t, err)
			return b.issuer.Release(ctx, tok) // somebody else's doing
		})
		require.ErrorIs(t, err, token.ErrUnreleased)
		synctest.Wait()
		got := b.points(t)
		require.Equal(t, []point{{"fencepost.outcome=unconfirmed", 1, 0}}, got["fencepost.lock.released"])
		require.Equal(t, []point{{"fencepost.outcome=released", 1, 0}}, got["fencepost.lock.hold"])
	})
}
