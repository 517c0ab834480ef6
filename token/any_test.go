package token_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

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
				locker, start := token.Locker{Issuer: iss(), TTL: ttl}, time.Now()
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
				time.Sleep(time.Second) // those who leave a line do it behind our back
				for _, slot := range slots {
					require.NoError(t, locker.TryHold(t.Context(), slot, nothing))
				}
			})
		})
	}
}

func TestAnySlotOfASemaphoreIsWaitedForNoLongerThanWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		locker := token.Locker{Issuer: new(memtoken.Issuer), TTL: ttl, Wait: time.Minute}
		held := make([]*token.Lease, len(slots))
		for i := range held {
			var err error
			held[i], err = locker.AcquireAny(t.Context(), slots...)
			require.NoError(t, err)
		}
		_, err := locker.AcquireAny(t.Context(), slots...)
		require.ErrorIs(t, err, token.ErrWaitEnded)
		require.ErrorIs(t, err, token.ErrHeld)
		dismiss(t, held)
	})
}

// flood grants to all who wait at once.
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
		held, err := (&token.Locker{Issuer: &f, TTL: time.Hour}).AcquireAny(t.Context(), slots...)
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
		locker := token.Locker{Issuer: new(memtoken.Issuer), TTL: ttl}
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
		locker := token.Locker{Issuer: new(memtoken.Issuer), TTL: ttl, Wait: ttl}
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

// broken fails for one slot.
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
		locker := token.Locker{Issuer: new(broken), TTL: ttl, Wait: ttl}
		for range 30 {
			require.NoError(t, locker.HoldAny(t.Context(), slots, func(context.Context, string) error { return nil }))
		}
		require.ErrorIs(t, locker.HoldAny(t.Context(), slots[:1], nil), errCut)
	})
}

func TestTheWaitForASemaphoreIsOne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := wire{there: ttl / 4, back: ttl / 4}
		held := make([]*token.Lease, len(slots))
		for i, slot := range slots {
			var err error
			held[i], err = (&token.Locker{Issuer: &w, TTL: time.Minute}).Acquire(t.Context(), slot)
			require.NoError(t, err)
		}
		start := time.Now()
		_, err := (&token.Locker{Issuer: &w, TTL: ttl, Wait: ttl}).AcquireAny(t.Context(), slots...)
		require.ErrorIs(t, err, token.ErrWaitEnded)
		require.LessOrEqual(t, time.Since(start), 3*ttl, "its end, and the giving back of what may have been granted")
		dismiss(t, held)
	})
}

func TestASemaphoreNeedsSlots(t *testing.T) {
	t.Parallel()
	locker := token.Locker{Issuer: new(memtoken.Issuer)}
	_, err := locker.AcquireAny(t.Context())
	require.ErrorIs(t, err, token.ErrInvalid)
	_, err = locker.AcquireAny(t.Context(), "pool/1", "pool\n")
	require.ErrorIs(t, err, token.ErrInvalid)
}
