package lock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/tokenctx"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

// hazard L13
func TestWorkThatOutlivesItsHoldHasNoToken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var marks guard.Memory
		var detached context.Context
		var captured token.Token
		locker := lock.Locker{Issuer: new(memtoken.Issuer), DangerouslyWithoutClaim: true}
		require.NoError(t, locker.Hold(t.Context(), account, func(ctx context.Context) error {
			detached = token.NewContext(context.WithoutCancel(ctx), token.Token{Resource: "invoice/7", Number: 5, Holder: "a"})
			captured = fromContext(t, ctx, account)
			return marks.Admit(ctx, captured)
		}))

		tok, err := token.FromContext(detached, account)
		require.ErrorIs(t, err, token.ErrReleased)
		require.Zero(t, tok)
		require.Equal(t, []token.Token{{Resource: "invoice/7", Number: 5, Holder: "a"}}, token.All(detached))

		// The twin took the token by value. The guard has no record of a release, and
		// there is no newer holder, so the token is admitted.
		require.NoError(t, marks.Admit(detached, captured))
	})
}

func TestALostLeaseKeepsItsTokenForTheGuardToJudge(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		w.renew.set(fails)
		held, err := (&lock.Locker{Issuer: &w, DangerouslyWithoutClaim: true}).Acquire(t.Context(), account)
		require.NoError(t, err)
		<-held.Context().Done()
		require.Equal(t, held.Token(), fromContext(t, held.Context(), account))
	})
}

func fromContext(t *testing.T, ctx context.Context, resource string) token.Token {
	t.Helper()
	tok, err := token.FromContext(ctx, resource)
	require.NoError(t, err)
	return tok
}

func TestLeased(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tok := token.Token{Resource: "account/42", Number: 33, Holder: "a"}
		require.False(t, tokenctx.Leased(t.Context(), account, tok))
		require.False(t, tokenctx.Leased(token.NewContext(t.Context(), tok), account, tok), "from elsewhere")
		lease, err := (&lock.Locker{Issuer: &memtoken.Issuer{}, Name: "test", DangerouslyWithoutClaim: true}).Acquire(t.Context(), "account/42")
		require.NoError(t, err)
		ctx := lease.Context()
		require.True(t, tokenctx.Leased(ctx, account, lease.Token()))
		require.False(t, tokenctx.Leased(ctx, tok.Resource, tok))
		require.False(t, tokenctx.Leased(token.NewContext(ctx, lease.Token()), account, lease.Token()), "put there by hand")
		require.NoError(t, lease.Release(t.Context()))
		require.False(t, tokenctx.Leased(ctx, account, lease.Token()))
	})
}

func TestAReentryOfADetachedContextEndsWithTheLease(t *testing.T) {
	for name, test := range map[string]struct {
		end   func(w *wire, outer *lock.Lease) error
		cause error
	}{
		"which is lost":     {func(w *wire, _ *lock.Lease) error { w.renew.set(fails); return nil }, token.ErrLost},
		"which is released": {func(_ *wire, outer *lock.Lease) error { return outer.Release(context.Background()) }, token.ErrReleased},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var w wire
				locker := lock.Locker{Issuer: &w, TTL: ttl, DangerouslyWithoutClaim: true}
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
		locker := lock.Locker{Issuer: &w, DangerouslyWithoutClaim: true}
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
		locker := lock.Locker{Issuer: &w, TTL: ttl, DangerouslyWithoutClaim: true}
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
