package otelfence_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
)

func TestALeaseIsCountedAndTimed(t *testing.T) {
	inBubble(t, false, func(t *testing.T, b *bench) {
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
		require.Len(t, got, 5, "nothing else was recorded")
	})
}

func TestAFailedWaitIsCountedByReason(t *testing.T) {
	inBubble(t, false, func(t *testing.T, b *bench) {
		holder, err := b.Acquire(t.Context(), account)
		require.NoError(t, err)
		tried := *b.Locker
		tried.NoWait = true
		require.ErrorIs(t, tried.Hold(t.Context(), account, pause(0)), token.ErrHeld)
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		require.ErrorIs(t, b.Hold(ctx, account, pause(0)), context.DeadlineExceeded)
		short, broken := *b.Locker, *b.Locker
		short.WaitTimeout = 3 * time.Second
		require.ErrorIs(t, short.Hold(t.Context(), account, pause(0)), lock.ErrWaitTimeout)
		broken.Issuer = refusing{}
		require.ErrorIs(t, broken.Hold(t.Context(), account, pause(0)), errUnreachable)
		broken.WaitTimeout = 3 * time.Second
		require.ErrorIs(t, broken.Hold(t.Context(), account, pause(0)), lock.ErrWaitTimeout)
		require.NoError(t, holder.Release(t.Context()))

		got := b.points(t)
		require.ElementsMatch(t, []point{
			{"fencepost.reason=held", 1, 0},
			{"fencepost.reason=wait_timeout", 1, 0},
			{"fencepost.reason=cancelled", 1, 0},
			{"fencepost.reason=error", 2, 0},
		}, got["fencepost.lock.not_acquired"])
		require.Contains(t, got["fencepost.lock.wait"], point{"fencepost.outcome=not_acquired", 5, 10})
	})
}

// refusing is an issuer that cannot be reached.
type refusing struct{ cutOff }

func (refusing) Acquire(context.Context, string, string, time.Duration) (token.Grant, error) {
	return token.Grant{}, errUnreachable
}

func (refusing) Release(context.Context, token.Token) error { return errUnreachable }

// The hold is recorded once, although the lease is both lost and released.
func TestALossIsCountedAndTimedOnce(t *testing.T) {
	inBubble(t, false, func(t *testing.T, b *bench) {
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
		require.Greater(t, got["fencepost.lock.renew_failed"][0].count, int64(1), "failed renewals come before the loss")
		require.NotContains(t, got, "fencepost.lock.renewed")
	})
}

func TestAnUnconfirmedReleaseIsCountedAsOne(t *testing.T) {
	inBubble(t, false, func(t *testing.T, b *bench) {
		err := b.Hold(t.Context(), account, func(ctx context.Context) error {
			tok, err := token.FromContext(ctx, account)
			require.NoError(t, err)
			return b.issuer.Release(ctx, tok) // released by other code
		})
		require.ErrorIs(t, err, lock.ErrNotReleased)
		synctest.Wait()
		got := b.points(t)
		require.Equal(t, []point{{"fencepost.outcome=unconfirmed", 1, 0}}, got["fencepost.lock.released"])
		require.Equal(t, []point{{"fencepost.outcome=released", 1, 0}}, got["fencepost.lock.hold"])
	})
}

// The issuer had forgotten its numbers: the guard has seen a greater number than the
// issuer grants. This test is not parallel: it replaces the program's logger.
func TestARefusalAndItsRecoveryAreCountedAndLogged(t *testing.T) {
	log := logged(t)
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, false)
		marks := new(guard.Memory)
		b.Claim = marks.Admit
		require.NoError(t, b.Hold(t.Context(), account, func(ctx context.Context) error {
			tok, err := token.FromContext(ctx, account)
			require.NoError(t, err)
			newer := token.Token{Resource: account, Number: tok.Number + 1000, Holder: "before it forgot"}
			return marks.Admit(ctx, newer)
		}))
		require.NoError(t, b.Hold(t.Context(), account, pause(0)), "the acquisition after the refused one is admitted")
		synctest.Wait()
		got := b.points(t)
		require.Equal(t, []point{{"", 1, 0}}, got["fencepost.lock.refused"])
		require.Equal(t, []point{{"", 1, 0}}, got["fencepost.lock.recovered"])
		require.Equal(t, []point{{"", 3, 0}}, got["fencepost.lock.acquired"])
		require.NotContains(t, got, "fencepost.lock.collided")
	})
	require.Contains(t, log.String(), "the issuer had forgotten its numbers")
	require.Contains(t, log.String(), account)
}

func TestACollisionIsCountedAsOne(t *testing.T) {
	inBubble(t, false, func(t *testing.T, b *bench) {
		marks := new(guard.Memory)
		err := b.Hold(t.Context(), account, func(ctx context.Context) error {
			tok, err := token.FromContext(ctx, account)
			require.NoError(t, err)
			require.NoError(t, marks.Admit(ctx, token.Token{Resource: account, Number: tok.Number, Holder: "its twin"}))
			return marks.Admit(ctx, tok)
		})
		require.ErrorIs(t, err, guard.ErrCollision)
		synctest.Wait()
		got := b.points(t)
		require.Equal(t, []point{{"", 1, 0}}, got["fencepost.lock.collided"])
		require.NotContains(t, got, "fencepost.lock.refused")
	})
}

// logged returns what the program logs until t ends.
func logged(t *testing.T) *bytes.Buffer {
	t.Helper()
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	return &log
}
