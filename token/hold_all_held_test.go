package token_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/token"
)

// hazard L9
func TestHoldAllUnderAHeldLeaseIsBoundedByWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		locker := token.Locker{Issuer: &w, TTL: ttl, Wait: 10 * time.Minute}
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
		require.ErrorIs(t, errors.Join(<-errs, <-errs), token.ErrWaitEnded)
		require.GreaterOrEqual(t, time.Since(start), locker.Wait, "nothing else ends it")
		require.NoError(t, locker.HoldAll(t.Context(), []string{"a", "b"}, work))
	})
}
