package redistoken_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token/redistoken"
)

// Callers that arrive while a reply is outstanding share one pipeline.
func TestConcurrentCallersShareAPipeline(t *testing.T) {
	t.Parallel()
	const callers = 8
	client, prefix := testenv.Redis(t)
	iss := &redistoken.Issuer{Client: client, Prefix: prefix}
	cycle(t, iss, "before") // the server has the scripts
	redistoken.OneSender(iss)
	hook := &pipelineHook{sent: make(chan struct{}), let: make(chan struct{})}
	client.AddHook(hook)

	var group sync.WaitGroup
	request := func(n int) {
		group.Go(func() {
			if _, err := iss.Acquire(t.Context(), fmt.Sprintf("account/%d", n), "holder", long); err != nil {
				t.Error(err)
			}
		})
	}
	request(0)
	<-hook.sent
	for n := range callers {
		request(n + 1)
		require.Eventually(t, func() bool { return redistoken.QueuedCommands(iss) == n+1 }, testTimeout, time.Millisecond)
	}
	close(hook.let)
	group.Wait()
	require.Equal(t, []int{callers}, hook.pipelines)
}

// pipelineHook blocks the first single command, and records the lengths of the pipelines
// of scripts.
type pipelineHook struct {
	sent, let chan struct{}
	once      sync.Once
	pipelines []int // one sender at a time
}

func (h *pipelineHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *pipelineHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.once.Do(func() {
			close(h.sent)
			<-h.let
		})
		return next(ctx, cmd)
	}
}

func (h *pipelineHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() == "evalsha" { // not the client's own, for a new connection
			h.pipelines = append(h.pipelines, len(cmds))
		}
		return next(ctx, cmds)
	}
}
