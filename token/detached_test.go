package token_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/token"
)

func TestAReentryOfADetachedContextEndsWithTheLease(t *testing.T) {
	for name, test := range map[string]struct {
		end   func(w *wire, outer *token.Lease) error
		cause error
	}{
		"which is lost":     {func(w *wire, _ *token.Lease) error { w.renew.set(fails); return nil }, token.ErrLost},
		"which is released": {func(_ *wire, outer *token.Lease) error { return outer.Release(context.Background()) }, token.ErrReleased},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var w wire
				locker := token.Locker{Issuer: &w, TTL: ttl}
				outer, err := locker.Acquire(t.Context(), account)
				require.NoError(t, err)
				detached := context.WithoutCancel(context.WithValue(outer.Context(), ctxKey{}, "mine"))
				err = locker.Hold(detached, account, func(ctx context.Context) error {
					require.Equal(t, "mine", ctx.Value(ctxKey{}))
					require.NoError(t, ctx.Err())
					require.NoError(t, test.end(&w, outer))
					firstOther(t, &w)
					synctest.Wait()
					require.Error(t, ctx.Err(), "two hold")
					require.ErrorIs(t, context.Cause(ctx), test.cause)
					return context.Cause(ctx)
				})
				require.ErrorIs(t, err, test.cause)

				// The twin works under the context that it detached.
				require.NoError(t, detached.Err())
			})
		})
	}
}

func TestAContextOfAReentryEndsAtItsOwnRelease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		locker := token.Locker{Issuer: &w}
		outer, err := locker.Acquire(t.Context(), account)
		require.NoError(t, err)
		inner, err := locker.Acquire(context.WithoutCancel(outer.Context()), account)
		require.NoError(t, err)
		forgotten, err := locker.Acquire(context.WithoutCancel(inner.Context()), account)
		require.NoError(t, err)

		require.NoError(t, inner.Release(t.Context()))
		require.NoError(t, inner.Release(t.Context()))
		require.ErrorIs(t, context.Cause(inner.Context()), token.ErrReleased)
		require.Equal(t, outer.Token(), fromContext(t, inner.Context(), account), "the lease lives")
		require.NoError(t, outer.Context().Err())
		require.NoError(t, forgotten.Context().Err())

		require.NoError(t, outer.Release(t.Context()))
		<-forgotten.Context().Done()
		require.ErrorIs(t, context.Cause(forgotten.Context()), token.ErrReleased)
	})
}

func TestAReentryFollowsItsOwnContextToo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		locker := token.Locker{Issuer: &w, TTL: ttl}
		require.NoError(t, locker.Hold(t.Context(), account, func(outer context.Context) error {
			short, cancel := context.WithTimeout(outer, time.Minute)
			defer cancel()
			require.ErrorIs(t, locker.Hold(short, account, func(ctx context.Context) error {
				<-ctx.Done()
				return context.Cause(ctx)
			}), context.DeadlineExceeded)
			return outer.Err()
		}))
	})
}
