package sqlguard_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

func TestSteady(t *testing.T) {
	t.Parallel()
	own := errors.New("own")
	type value struct{}
	for name, c := range map[string]struct {
		end   func(cancel context.CancelCauseFunc)
		after time.Duration
		cause error
	}{
		"the caller's end ends it at once":          {func(cancel context.CancelCauseFunc) { cancel(own) }, 0, own},
		"the loss of the lease ends it after 30 s":  {func(cancel context.CancelCauseFunc) { cancel(token.ErrLost) }, 30 * time.Second, token.ErrLost},
		"a released lease ends it after 30 s":       {func(cancel context.CancelCauseFunc) { cancel(token.ErrReleased) }, 30 * time.Second, token.ErrReleased},
		"the caller's deadline ends it at its time": {func(context.CancelCauseFunc) {}, time.Hour, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithTimeout(context.WithValue(t.Context(), value{}, "kept"), time.Hour)
				defer stop()
				ctx, cancel := context.WithCancelCause(ctx)
				defer cancel(nil)
				start := time.Now()
				inner, end := sqlguard.Steady(ctx)
				defer end()
				require.Equal(t, "kept", inner.Value(value{}))
				c.end(cancel)
				<-inner.Done()
				require.Equal(t, c.after, time.Since(start))
				require.ErrorIs(t, context.Cause(inner), c.cause)
				require.Equal(t, c.cause == context.DeadlineExceeded, inner.Err() == context.DeadlineExceeded)
			})
		})
	}
	t.Run("nothing is left of it when it is no longer needed", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			inner, end := sqlguard.Steady(ctx)
			cancel(token.ErrLost)
			synctest.Wait()
			require.NoError(t, inner.Err())
			end()
			require.Error(t, inner.Err())
		})
	})
}
