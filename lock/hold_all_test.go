package lock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
)

func TestHoldAllCarriesEveryToken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		var asked []string
		locker := lock.Locker{Issuer: &w, Claim: func(_ context.Context, tok token.Token) error {
			asked = append(asked, tok.Resource)
			return nil
		}}
		err := locker.HoldAll(t.Context(), []string{"b", "ä", "a", "b", "B"}, func(ctx context.Context) error {
			require.Len(t, token.All(ctx), 4)
			return errWork
		})
		require.True(t, err == errWork)
		require.Equal(t, []string{"B", "a", "b", "ä"}, asked, "bytewise, each once")
		require.EqualValues(t, 4, w.release.calls.Load())
	})
}

func TestHoldAllWantsNames(t *testing.T) {
	t.Parallel()
	var w wire
	for _, names := range [][]string{nil, {}, {"a", ""}, {"a", "b\n"}} {
		require.ErrorIs(t, (&lock.Locker{Issuer: &w, DangerouslyWithoutClaim: true}).HoldAll(t.Context(), names, nil), token.ErrInvalid)
	}
	require.Zero(t, w.acquire.calls.Load())
}

func TestHoldAllEndsWithTheFirstLeaseThatIsLost(t *testing.T) {
	for _, lost := range []string{"a", "b", "c"} {
		t.Run(lost, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var w wire
				locker := lock.Locker{Issuer: &w, TTL: ttl, DangerouslyWithoutClaim: true}
				err := locker.HoldAll(t.Context(), []string{"a", "b", "c"}, func(ctx context.Context) error {
					require.NoError(t, w.far.Release(t.Context(), fromContext(t, ctx, lost)))
					<-ctx.Done()
					return context.Cause(ctx)
				})
				var why *token.LostError
				require.True(t, errors.As(err, &why))
				require.Equal(t, lost, why.Token.Resource)
				require.NotErrorIs(t, err, lock.ErrNotReleased)
			})
		})
	}
}

func TestALossOfOneDoesNotHideThatAnotherIsNotReleased(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		locker := lock.Locker{Issuer: &w, TTL: ttl, DangerouslyWithoutClaim: true}
		err := locker.Hold(t.Context(), "a", func(ctx context.Context) error {
			err := locker.Hold(ctx, "b", func(ctx context.Context) error {
				require.NoError(t, w.far.Release(t.Context(), fromContext(t, ctx, "b")))
				<-ctx.Done()
				return nil
			})
			w.release.set(fails)
			return err
		})
		require.ErrorIs(t, err, token.ErrLost)
		require.ErrorIs(t, err, lock.ErrNotReleased)
	})
}

func TestHoldAllGivesBackWhatItGotBeforeARefusal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		first := taken(t, &w)
		locker := lock.Locker{Issuer: &w, WaitTimeout: time.Minute, DangerouslyWithoutClaim: true}
		err := locker.HoldAll(t.Context(), []string{account, "a", "b"}, func(context.Context) error { return nil })
		require.ErrorIs(t, err, lock.ErrWaitTimeout)
		require.NoError(t, noWait(&locker).Hold(t.Context(), "a", func(context.Context) error { return nil }))
		require.NoError(t, first.Release(t.Context()))
	})
}

// hazard L9
func TestOppositeOrdersDoNotWaitForEachOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		locker := lock.Locker{Issuer: &w, TTL: ttl, WaitTimeout: 10 * time.Minute, DangerouslyWithoutClaim: true}
		var wg sync.WaitGroup
		for _, names := range [][]string{{"a", "b"}, {"b", "a"}} {
			wg.Go(func() {
				for range 10 {
					require.NoError(t, locker.HoldAll(t.Context(), names, func(context.Context) error {
						time.Sleep(10 * ttl)
						return nil
					}))
				}
			})
		}
		wg.Wait()

		// The twin nests in the given order. Each caller has one lease, waits for the
		// other's, and renews, so only the bound on waiting ends this.
		var first sync.WaitGroup
		first.Add(2)
		errs := make(chan error, 2)
		for _, names := range [][]string{{"a", "b"}, {"b", "a"}} {
			go func() {
				errs <- locker.Hold(t.Context(), names[0], func(ctx context.Context) error {
					first.Done()
					first.Wait()
					return locker.Hold(ctx, names[1], func(context.Context) error { return nil })
				})
			}()
		}
		require.ErrorIs(t, errors.Join(<-errs, <-errs), lock.ErrWaitTimeout)
	})
}

// hazard L9
func TestHoldAllUnderAHeldLeaseIsBoundedByWaitTimeout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		locker := lock.Locker{Issuer: &w, TTL: ttl, WaitTimeout: 10 * time.Minute, DangerouslyWithoutClaim: true}
		work := func(context.Context) error { return nil }
		start := time.Now()
		var both sync.WaitGroup
		both.Add(2)
		errs := make(chan error, 2)
		for _, has := range []string{"a", "b"} {
			go func() {
				errs <- locker.Hold(t.Context(), has, func(ctx context.Context) error {
					both.Done()
					both.Wait()
					return locker.HoldAll(ctx, []string{"a", "b"}, work)
				})
			}()
		}
		require.ErrorIs(t, errors.Join(<-errs, <-errs), lock.ErrWaitTimeout)
		require.GreaterOrEqual(t, time.Since(start), locker.WaitTimeout, "nothing else ends it")
		require.NoError(t, locker.HoldAll(t.Context(), []string{"a", "b"}, work))
	})
}
