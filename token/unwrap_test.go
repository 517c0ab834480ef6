package token_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/token"
)

// counted is a decorator: it counts what the issuer is asked.
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

// loose cannot be compared.
type loose struct {
	token.Issuer
	_ func()
}

type looseWrapper struct {
	loose
}

func (l looseWrapper) Unwrap() token.Issuer { return l.Issuer }

// opaque wraps and does not tell.
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
			{"a wrapper of nothing, inside itself", &blind{&w}, &w, token.ErrForeign},
			{"two wrappers of what cannot be compared", shared, &counted{Issuer: loose{Issuer: &w}}, token.ErrForeign},
			{"a wrapper that does not tell", &opaque{&w}, &w, token.ErrForeign},
			{"wrappers of two issuers", wrapped, &counted{Issuer: &stranger}, token.ErrForeign},
		} {
			outer := token.Locker{Issuer: c.outer, TTL: ttl}
			require.NoError(t, outer.Hold(t.Context(), account, func(ctx context.Context) error {
				inner := token.Locker{Issuer: c.inner, TTL: ttl}
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
		require.NoError(t, (&token.Locker{Issuer: outer}).Hold(t.Context(), account, func(ctx context.Context) error {
			return (&token.Locker{Issuer: inner}).Hold(ctx, account, func(context.Context) error { return nil })
		}))
		require.Equal(t, 2, outer.calls, "to acquire and to release")
		require.Zero(t, inner.calls)
	})
}
