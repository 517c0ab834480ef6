package token_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/token"
)

var errWork = errors.New("out of stock")

func TestHoldReturnsTheWorksOwnError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		locker := token.Locker{Issuer: &w, TTL: ttl}
		for _, want := range []error{nil, errWork} {
			err := locker.Hold(t.Context(), account, func(ctx context.Context) error {
				require.Equal(t, account, fromContext(t, ctx, account).Resource)
				require.ErrorIs(t, locker.TryHold(t.Context(), account, nil), token.ErrHeld)
				return want
			})
			require.True(t, err == want, "%v is joined to something", err)
			free(t, &w)
		}
	})
}

func TestHoldSaysWhatElseHappened(t *testing.T) {
	for name, world := range map[string]struct {
		renew, release fault
		work           error
		is, isNot      []error
	}{
		"not released":                            {works, fails, nil, []error{token.ErrUnreleased, errCut}, []error{token.ErrLost}},
		"failed and not released":                 {works, fails, errWork, []error{errWork, token.ErrUnreleased}, []error{token.ErrLost}},
		"lost":                                    {fails, works, nil, []error{token.ErrLost, errCut}, []error{token.ErrUnreleased}},
		"lost and failed":                         {fails, works, errWork, []error{errWork, token.ErrLost}, []error{token.ErrUnreleased}},
		"lost and not released":                   {hangs, fails, errWork, []error{errWork, token.ErrLost, token.ErrUnreleased}, nil},
		"released without an answer":              {works, hangs, nil, []error{token.ErrUnreleased, context.DeadlineExceeded}, []error{token.ErrLost}},
		"released, and the reply to that is lost": {works, mute, nil, []error{token.ErrUnreleased}, []error{token.ErrLost}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var w wire
				w.renew.set(world.renew)
				w.release.set(world.release)
				err := (&token.Locker{Issuer: &w, TTL: ttl}).Hold(t.Context(), account, func(context.Context) error {
					time.Sleep(ttl - ttl/20)
					return world.work
				})
				for _, target := range world.is {
					require.ErrorIs(t, err, target)
				}
				for _, target := range world.isNot {
					require.NotErrorIs(t, err, target)
				}
			})
		})
	}
}

func TestALossIsSaidOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		w.renew.set(fails)
		err := (&token.Locker{Issuer: &w, TTL: ttl}).Hold(t.Context(), account, func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(ttl) // nothing is left to release
			return context.Cause(ctx)
		})
		require.ErrorIs(t, err, token.ErrLost)
		require.Equal(t, 1, strings.Count(err.Error(), "lost"), err)
	})
}

func TestWorkThatIgnoresItsContextHearsOfASuccessor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		ctx, cancel := context.WithCancel(t.Context())
		err := (&token.Locker{Issuer: &w, TTL: ttl}).Hold(ctx, account, func(context.Context) error {
			cancel() // which ends the renewing too
			time.Sleep(ttl)
			return (&token.Locker{Issuer: &w}).Hold(t.Context(), account, func(context.Context) error { return nil })
		})
		require.ErrorIs(t, err, token.ErrLost)
		require.ErrorIs(t, err, token.ErrUnreleased)
	})
}

func TestAPanicReleasesAndGoesOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		require.PanicsWithValue(t, "work", func() {
			_ = (&token.Locker{Issuer: &w}).Hold(t.Context(), account, func(context.Context) error { panic("work") })
		})
		free(t, &w)
	})
}

func TestGoexitReleases(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = (&token.Locker{Issuer: &w}).Hold(t.Context(), account, func(context.Context) error {
				runtime.Goexit()
				return nil
			})
		}()
		<-done
		free(t, &w)
	})
}
