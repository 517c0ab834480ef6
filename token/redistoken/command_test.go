package redistoken_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/token/redistoken"
)

// deaf is a client that does not look at contexts, as an AutoPipeliner. Its server does not
// have the scripts, and replies when reply is closed.
type deaf struct {
	redis.UniversalClient
	asked []string
	reply chan struct{}
}

func (d *deaf) Process(_ context.Context, cmd redis.Cmder) error {
	d.asked = append(d.asked, cmd.Name())
	<-d.reply
	cmd.SetErr(noScript{})
	return noScript{}
}

type noScript struct{}

func (noScript) Error() string { return "NOSCRIPT No matching script. Please use EVAL." }
func (noScript) RedisError()   {}

// The caller may have released by then.
func TestAScriptIsNotSentAgainForACallerThatHasLeft(t *testing.T) {
	t.Parallel()
	for _, leaves := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			client := &deaf{reply: make(chan struct{})}
			iss := &redistoken.Issuer{Client: client}
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			returned := start(ctx, func(ctx context.Context) error {
				_, err := iss.Acquire(ctx, resource, "a", long)
				return err
			})
			synctest.Wait()
			asked := []string{"evalsha", "eval"}
			if leaves {
				leave()
				require.ErrorIs(t, <-returned, context.Canceled)
				asked = asked[:1]
			}
			close(client.reply)
			synctest.Wait()
			require.Equal(t, asked, client.asked)
			if !leaves {
				require.ErrorContains(t, <-returned, "NOSCRIPT")
			}
		})
	}
}
