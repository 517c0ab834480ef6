package writectx_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/writectx"
	"github.com/fencepost/fencepost/token"
)

var (
	errOwn = errors.New("the caller's own")
	lost   = &token.LostError{Token: token.Token{Resource: "account/42", Number: 33, Holder: "a"}}
)

// ends are ways in which a context with a deadline in one hour ends.
var ends = map[string]struct {
	cause        error // of the context
	wait         time.Duration
	after        time.Duration // how long a statement that was sent may continue
	final        error         // the cause after that
	send, commit bool
}{
	"the lease is lost":                        {lost, 0, 30 * time.Second, token.ErrLost, true, true},
	"the lease is released":                    {token.ErrReleased, 0, 30 * time.Second, token.ErrReleased, false, true},
	"the caller cancels":                       {context.Canceled, 0, 0, context.Canceled, false, false},
	"the caller cancels, with a cause":         {errOwn, 0, 0, errOwn, false, false},
	"the deadline passes":                      {nil, time.Hour, 0, context.DeadlineExceeded, false, false},
	"the lease is lost, the deadline is near":  {lost, time.Hour - time.Second, time.Second, context.DeadlineExceeded, true, true},
	"the lease is released, it is near":        {token.ErrReleased, time.Hour - time.Second, time.Second, context.DeadlineExceeded, false, true},
	"the lease is lost, the deadline is later": {lost, time.Hour - time.Minute, 30 * time.Second, token.ErrLost, true, true},
}

func TestTheContextOfAWrite(t *testing.T) {
	t.Parallel()
	type key struct{}
	for name, c := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				outer, stop := context.WithTimeout(context.WithValue(t.Context(), key{}, "kept"), time.Hour)
				defer stop()
				ctx, cancel := context.WithCancelCause(outer)
				defer cancel(nil)
				inner, end := writectx.New(ctx)
				defer end()
				require.NoError(t, writectx.CheckSend(ctx))
				require.NoError(t, writectx.CheckCommit(ctx))
				require.NoError(t, inner.Err())
				require.Equal(t, "kept", inner.Value(key{}))
				deadline, dated := inner.Deadline()
				require.True(t, dated)
				require.Equal(t, time.Hour, time.Until(deadline))

				time.Sleep(c.wait)
				if c.cause != nil {
					cancel(c.cause)
				}
				<-ctx.Done()
				over := time.Now()
				sent, committed := writectx.CheckSend(ctx), writectx.CheckCommit(ctx)
				require.Equal(t, c.send, sent == nil)
				require.Equal(t, c.commit, committed == nil)
				for _, err := range []error{sent, committed} {
					if err != nil {
						require.ErrorIs(t, err, ctx.Err())
						require.ErrorIs(t, err, context.Cause(ctx))
					}
				}
				late, endLate := writectx.New(ctx) // for a statement that is sent although the lease is over
				defer endLate()
				for _, ctx := range []context.Context{inner, late} {
					<-ctx.Done()
					require.Equal(t, c.after, time.Since(over))
					require.ErrorIs(t, context.Cause(ctx), c.final)
					require.Equal(t, c.final == context.DeadlineExceeded, ctx.Err() == context.DeadlineExceeded)
				}
			})
		})
	}
}

func TestNothingIsLeftOfAContextThatIsNoLongerNeeded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		inner, end := writectx.New(ctx)
		cancel(lost)
		synctest.Wait()
		require.NoError(t, inner.Err())
		end()
		require.Error(t, inner.Err())
	})
	endless := context.Background()
	inner, end := writectx.New(endless)
	end()
	require.Equal(t, endless, inner)
}

func TestCommitAndCleanupOutliveTheirCaller(t *testing.T) {
	t.Parallel()
	for bound, derive := range map[time.Duration]func(context.Context) (context.Context, context.CancelFunc){
		writectx.Timeout: writectx.ForCommit, writectx.CleanupTimeout: writectx.ForCleanup,
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			cancel()
			start := time.Now()
			inner, end := derive(ctx)
			defer end()
			<-inner.Done()
			require.Equal(t, bound, time.Since(start))
		})
	}
}
