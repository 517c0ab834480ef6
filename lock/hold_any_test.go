package lock_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

var slots = []string{"pool/1", "pool/2", "pool/3"}

func TestASemaphoreLetsInAsManyAsItHasSlots(t *testing.T) {
	for name, iss := range map[string]func() token.Issuer{
		"an issuer with a line":  func() token.Issuer { return new(memtoken.Issuer) },
		"an issuer without one":  func() token.Issuer { return new(wire) },
		"one behind a slow wire": func() token.Issuer { return &wire{there: ttl / 50, back: ttl / 50} },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				locker, start := lock.Locker{Issuer: iss(), TTL: ttl, DangerouslyWithoutClaim: true}, time.Now()
				var mu sync.Mutex
				var crowd sync.WaitGroup
				inside, most, served := map[string]int{}, 0, 0
				for range 30 {
					crowd.Go(func() {
						err := locker.HoldAny(t.Context(), slots, func(ctx context.Context, slot string) error {
							mu.Lock()
							inside[slot]++
							most, served = max(most, len(inside)), served+1
							if inside[slot] > 1 {
								t.Errorf("two are in %s", slot)
							}
							mu.Unlock()
							time.Sleep(ttl)
							mu.Lock()
							defer mu.Unlock()
							if inside[slot]--; inside[slot] == 0 {
								delete(inside, slot)
							}
							return ctx.Err()
						})
						if err != nil {
							t.Error(err)
						}
					})
				}
				crowd.Wait()
				require.Equal(t, len(slots), most)
				require.Equal(t, 30, served)
				if name == "an issuer with a line" {
					require.Equal(t, 10*ttl, time.Since(start), "no slot is idle")
				}
				time.Sleep(time.Second) // waiters leave their queues in the background
				for _, slot := range slots {
					require.NoError(t, noWait(&locker).Hold(t.Context(), slot, nothing))
				}
			})
		})
	}
}

func TestAnySlotOfASemaphoreIsWaitedForNoLongerThanWaitTimeout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		locker := lock.Locker{Issuer: new(memtoken.Issuer), TTL: ttl, WaitTimeout: time.Minute, DangerouslyWithoutClaim: true}
		held := make([]*lock.Lease, len(slots))
		for i := range held {
			var err error
			held[i], err = locker.AcquireOne(t.Context(), slots)
			require.NoError(t, err)
		}
		_, err := locker.AcquireOne(t.Context(), slots)
		require.ErrorIs(t, err, lock.ErrWaitTimeout)
		require.ErrorIs(t, err, token.ErrHeld)
		releaseAll(t, held)
	})
}

// flood grants to all waiters at once.
type flood struct {
	memtoken.Issuer
	open chan struct{}
}

func (f *flood) Acquire(_ context.Context, resource, _ string, _ time.Duration) (token.Grant, error) {
	return token.Grant{}, &token.HeldError{Resource: resource, Remaining: time.Minute}
}

func (f *flood) Wait(_ context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	<-f.open
	return f.Issuer.Acquire(context.Background(), resource, holder, ttl)
}

func TestASlotThatIsGrantedBesidesPassesOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := flood{open: make(chan struct{})}
		time.AfterFunc(time.Second, func() { close(f.open) })
		held, err := (&lock.Locker{Issuer: &f, TTL: time.Hour, DangerouslyWithoutClaim: true}).AcquireOne(t.Context(), slots)
		require.NoError(t, err)
		synctest.Wait()
		for _, slot := range slots {
			_, err := f.Issuer.Acquire(t.Context(), slot, "another", ttl)
			require.Equal(t, slot == held.Token().Resource, err != nil, slot)
		}
		require.NoError(t, held.Release(t.Context()))
	})
}

func TestASlotThatIsHeldIsEnteredAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		locker := lock.Locker{Issuer: new(memtoken.Issuer), TTL: ttl, DangerouslyWithoutClaim: true}
		require.NoError(t, locker.Hold(t.Context(), "pool/2", func(ctx context.Context) error {
			return locker.HoldAny(ctx, slots, func(_ context.Context, slot string) error {
				require.Equal(t, "pool/2", slot)
				return nil
			})
		}))
	})
}

func TestASlotThatWasReleasedIsOneOfAll(t *testing.T) {
	bubble(t, func(t *testing.T) {
		locker := lock.Locker{Issuer: new(memtoken.Issuer), TTL: ttl, WaitTimeout: ttl, DangerouslyWithoutClaim: true}
		old, err := locker.Acquire(t.Context(), "pool/1")
		require.NoError(t, err)
		require.NoError(t, old.Release(t.Context()))
		require.NoError(t, locker.Hold(t.Context(), "pool/1", func(context.Context) error {
			return locker.HoldAny(context.WithoutCancel(old.Context()), slots, func(_ context.Context, slot string) error {
				require.NotEqual(t, "pool/1", slot)
				return nil
			})
		}))
	})
}

// broken is an issuer that fails for one slot.
type broken struct{ memtoken.Issuer }

func (b *broken) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	if resource == "pool/1" {
		return token.Grant{}, errCut
	}
	return b.Issuer.Acquire(ctx, resource, holder, ttl)
}

func (b *broken) Wait(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	if resource == "pool/1" {
		return token.Grant{}, errCut
	}
	return b.Issuer.Wait(ctx, resource, holder, ttl)
}

func TestASlotThatFailsDoesNotMatterBesideOneThatIsFree(t *testing.T) {
	bubble(t, func(t *testing.T) {
		locker := lock.Locker{Issuer: new(broken), TTL: ttl, WaitTimeout: ttl, DangerouslyWithoutClaim: true}
		for range 30 {
			require.NoError(t, locker.HoldAny(t.Context(), slots, func(context.Context, string) error { return nil }))
		}
		require.ErrorIs(t, locker.HoldAny(t.Context(), slots[:1], nil), errCut)
	})
}

func TestTheWaitForASemaphoreIsOne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := wire{there: ttl / 4, back: ttl / 4}
		held := make([]*lock.Lease, len(slots))
		for i, slot := range slots {
			var err error
			held[i], err = (&lock.Locker{Issuer: &w, TTL: time.Minute, DangerouslyWithoutClaim: true}).Acquire(t.Context(), slot)
			require.NoError(t, err)
		}
		start := time.Now()
		_, err := (&lock.Locker{Issuer: &w, TTL: ttl, WaitTimeout: ttl, DangerouslyWithoutClaim: true}).AcquireOne(t.Context(), slots)
		require.ErrorIs(t, err, lock.ErrWaitTimeout)
		require.LessOrEqual(t, time.Since(start), 3*ttl, "the end of the wait, and the release of what may have been granted")
		releaseAll(t, held)
	})
}

func TestASemaphoreNeedsSlots(t *testing.T) {
	t.Parallel()
	locker := lock.Locker{Issuer: new(memtoken.Issuer), DangerouslyWithoutClaim: true}
	_, err := locker.AcquireOne(t.Context(), nil)
	require.ErrorIs(t, err, token.ErrInvalid)
	_, err = locker.AcquireOne(t.Context(), []string{"pool/1", "pool\n"})
	require.ErrorIs(t, err, token.ErrInvalid)
}

// refuses is an issuer whose refusals take a while to inspect.
type refuses struct{ token.Issuer }

func (refuses) Acquire(_ context.Context, resource, _ string, _ time.Duration) (token.Grant, error) {
	return token.Grant{}, slowRefusal{&token.HeldError{Resource: resource, Remaining: ttl}}
}

type slowRefusal struct{ *token.HeldError }

func (r slowRefusal) As(target any) bool {
	time.Sleep(ttl)
	held, ok := target.(**token.HeldError)
	if ok {
		*held = r.HeldError
	}
	return ok
}

// The wait times out after a try was found to be refused, and before the next one.
func TestAWaitThatTimesOutBetweenTwoTriesIsATimeout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		locker := lock.Locker{Issuer: refuses{new(wire)}, TTL: 10 * ttl, WaitTimeout: ttl / 2, DangerouslyWithoutClaim: true}
		err := locker.HoldAny(t.Context(), slots, func(context.Context, string) error { return nil })
		require.ErrorIs(t, err, lock.ErrWaitTimeout)
		require.ErrorIs(t, err, token.ErrHeld)
	})
}
