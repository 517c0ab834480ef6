package lock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
)

// hazard L3
func TestReentryKeepsTheToken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		var marks guard.Memory
		locker := lock.Locker{Issuer: &w, TTL: ttl, DangerouslyWithoutClaim: true}
		again := lock.Locker{Issuer: &w, Name: "another locker of the same issuer", DangerouslyWithoutClaim: true}
		require.NoError(t, locker.Hold(t.Context(), account, func(outer context.Context) error {
			tok := fromContext(t, outer, account)
			for _, hold := range []func(context.Context, string, func(context.Context) error) error{
				locker.Hold, noWait(&locker).Hold, again.Hold, noWait(&again).Hold,
			} {
				require.NoError(t, hold(outer, account, func(inner context.Context) error {
					require.Equal(t, tok, fromContext(t, inner, account))
					return marks.Admit(inner, tok)
				}))
				require.NoError(t, outer.Err(), "what is inside releases nothing")
			}
			require.EqualValues(t, 1, w.acquire.calls.Load())
			require.Zero(t, w.release.calls.Load())
			require.NoError(t, marks.Admit(outer, tok))

			// The twin acquires for the inner frame, so the outer frame becomes stale.
			inner, err := w.Acquire(outer, account, tok.Holder, ttl)
			require.NoError(t, err)
			require.NoError(t, marks.Admit(outer, inner.Token))
			require.ErrorIs(t, marks.Admit(outer, tok), guard.ErrStale)
			return nil
		}))
	})
}

func TestAHandleOfAReentryLeavesTheReleaseToTheOutermost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		locker := lock.Locker{Issuer: &w, DangerouslyWithoutClaim: true}
		outer, err := locker.Acquire(t.Context(), account)
		require.NoError(t, err)
		ctx := context.WithValue(outer.Context(), ctxKey{}, "mine")
		inner, err := locker.Acquire(ctx, account)
		require.NoError(t, err)
		require.Equal(t, ctx, inner.Context())
		require.Equal(t, outer.Token(), inner.Token())
		require.NoError(t, inner.Release(ctx))
		require.NoError(t, outer.Context().Err())
		require.Zero(t, w.release.calls.Load())
		require.NoError(t, outer.Release(ctx))
	})
}

type ctxKey struct{}

func TestAReleasedLeaseIsAcquiredAfresh(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		locker := lock.Locker{Issuer: &w, DangerouslyWithoutClaim: true}
		held, err := locker.Acquire(t.Context(), account)
		require.NoError(t, err)
		require.NoError(t, held.Release(t.Context()))
		detached := context.WithoutCancel(held.Context())
		require.NoError(t, locker.Hold(detached, account, func(ctx context.Context) error {
			require.Greater(t, fromContext(t, ctx, account).Number, held.Token().Number)
			return nil
		}))
	})
}

func TestALostLeaseIsNotEnteredAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		locker := lock.Locker{Issuer: &w, TTL: ttl, DangerouslyWithoutClaim: true}
		held, err := locker.Acquire(t.Context(), account)
		require.NoError(t, err)
		w.renew.set(fails)
		<-held.Context().Done()
		detached := context.WithoutCancel(held.Context())
		require.ErrorIs(t, locker.Hold(detached, account, nil), token.ErrLost)
		require.EqualValues(t, 1, w.acquire.calls.Load())
	})
}

func TestALossInsideOfAReentryIsReturnedThereToo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		locker := lock.Locker{Issuer: &w, TTL: ttl, DangerouslyWithoutClaim: true}
		err := locker.Hold(t.Context(), account, func(ctx context.Context) error {
			w.renew.set(fails)
			require.ErrorIs(t, locker.Hold(ctx, account, func(context.Context) error {
				time.Sleep(ttl)
				return nil
			}), token.ErrLost)
			return nil
		})
		require.ErrorIs(t, err, token.ErrLost)
	})
}

// hazard L10
func TestATokenFromElsewhereIsNoReentry(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		owner := taken(t, &w)
		asked := w.acquire.calls.Load()
		forged := token.NewContext(t.Context(), token.Token{Resource: account, Number: token.MaxNumber, Holder: "forger"})
		locker := lock.Locker{Issuer: &w, WaitTimeout: time.Minute, DangerouslyWithoutClaim: true}
		require.ErrorIs(t, locker.Hold(forged, account, nil), lock.ErrNotLeased)
		require.ErrorIs(t, noWait(&locker).Hold(forged, account, nil), lock.ErrNotLeased)
		require.ErrorIs(t, locker.HoldAll(forged, []string{account}, nil), lock.ErrNotLeased)
		require.Equal(t, asked, w.acquire.calls.Load())

		// The twin takes the token for its own lease's: it works at the same time as the
		// owner.
		naive := func(ctx context.Context, fn func() error) error {
			if _, err := token.FromContext(ctx, account); err == nil {
				return fn()
			}
			return locker.Hold(ctx, account, func(context.Context) error { return fn() })
		}
		ran := false
		require.NoError(t, naive(forged, func() error {
			ran = owner.Context().Err() == nil
			return nil
		}))
		require.True(t, ran)
		require.NoError(t, owner.Release(t.Context()))
	})
}

func TestALeaseOfAnotherIssuerIsNoReentry(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var one, other wire
		require.NoError(t, (&lock.Locker{Issuer: &one, DangerouslyWithoutClaim: true}).Hold(t.Context(), account, func(ctx context.Context) error {
			require.ErrorIs(t, (&lock.Locker{Issuer: &other, DangerouslyWithoutClaim: true}).Hold(ctx, account, nil), lock.ErrNotLeased)
			return nil
		}))
		require.Zero(t, other.acquire.calls.Load())
	})
}

// counted is a wrapper that counts the issuer's calls.
type counted struct {
	token.Issuer
	calls int
}

func (c *counted) Unwrap() token.Issuer { return c.Issuer }

func (c *counted) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	c.calls++
	return c.Issuer.Acquire(ctx, resource, holder, ttl)
}

func (c *counted) Release(ctx context.Context, tok token.Token) error {
	c.calls++
	return c.Issuer.Release(ctx, tok)
}

// loose is an issuer that cannot be compared.
type loose struct {
	token.Issuer
	_ func()
}

type looseWrapper struct {
	loose
}

func (l looseWrapper) Unwrap() token.Issuer { return l.Issuer }

// opaque is a wrapper without Unwrap.
type opaque struct{ token.Issuer }

type blind struct{ token.Issuer }

func (*blind) Unwrap() token.Issuer { return nil }

func TestAnIssuerCountsAsWhatItWraps(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w, stranger wire
		wrapped := &counted{Issuer: &w}
		shared := &counted{Issuer: loose{Issuer: &w}}
		for _, c := range []struct {
			name         string
			outer, inner token.Issuer
			want         error
		}{
			{"inside its wrapper", wrapped, &w, nil},
			{"the wrapper inside", &w, wrapped, nil},
			{"two wrappers of one", wrapped, &counted{Issuer: &w}, nil},
			{"a chain inside its last", &w, &counted{Issuer: &counted{Issuer: &counted{Issuer: &w}}}, nil},
			{"a wrapper that cannot be compared, inside itself", looseWrapper{loose{Issuer: &w}}, looseWrapper{loose{Issuer: &w}}, nil},
			{"a chain through one that cannot be compared", &w, &counted{Issuer: looseWrapper{loose{Issuer: &w}}}, nil},
			{"a wrapper of what cannot be compared, inside itself", shared, shared, nil},
			{"a wrapper of nothing, inside itself", &blind{&w}, &w, lock.ErrNotLeased},
			{"two wrappers of what cannot be compared", shared, &counted{Issuer: loose{Issuer: &w}}, lock.ErrNotLeased},
			{"a wrapper without an Unwrap", &opaque{&w}, &w, lock.ErrNotLeased},
			{"wrappers of two issuers", wrapped, &counted{Issuer: &stranger}, lock.ErrNotLeased},
		} {
			outer := lock.Locker{Issuer: c.outer, TTL: ttl, DangerouslyWithoutClaim: true}
			require.NoError(t, outer.Hold(t.Context(), account, func(ctx context.Context) error {
				inner := lock.Locker{Issuer: c.inner, TTL: ttl, DangerouslyWithoutClaim: true}
				require.ErrorIs(t, inner.Hold(ctx, account, func(ctx context.Context) error { return ctx.Err() }), c.want, c.name)
				return nil
			}), c.name)
		}
		require.Zero(t, stranger.acquire.calls.Load())
	})
}

func TestTheLeaseCallsTheIssuerThatGrantedIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		outer, inner := &counted{Issuer: &w}, &counted{Issuer: &w}
		require.NoError(t, (&lock.Locker{Issuer: outer, DangerouslyWithoutClaim: true}).Hold(t.Context(), account, func(ctx context.Context) error {
			return (&lock.Locker{Issuer: inner, DangerouslyWithoutClaim: true}).Hold(ctx, account, func(context.Context) error { return nil })
		}))
		require.Equal(t, 2, outer.calls, "to acquire and to release")
		require.Zero(t, inner.calls)
	})
}
