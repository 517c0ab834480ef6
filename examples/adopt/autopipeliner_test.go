package adopt_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
	"github.com/fencepost/fencepost/token/tokentest"
)

// hang is how long an event may take before the test fails.
const hang = 30 * time.Second

// faces are the ways to open an AutoPipeliner.
var faces = map[string]func(*redis.Client) (*redis.AutoPipeliner, error){
	"AutoPipeline":      (*redis.Client).AutoPipeline,
	"AsyncAutoPipeline": (*redis.Client).AsyncAutoPipeline,
	"full duplex": func(c *redis.Client) (*redis.AutoPipeliner, error) {
		return c.AutoPipelineWithOptions(&redis.AutoPipelineOptions{FullDuplex: true})
	},
}

func TestAnAutoPipelinerIsAClientOfTheIssuer(t *testing.T) {
	t.Parallel()
	for name, open := range faces {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tokentest.TestIssuer(t, func(t *testing.T) token.Issuer {
				client, prefix := testenv.Redis(t)
				return through(t, client, prefix, open)
			})
		})
	}
}

func through(
	t *testing.T, client *redis.Client, prefix string, open func(*redis.Client) (*redis.AutoPipeliner, error),
) *redistoken.Issuer {
	t.Helper()
	pipeliner, err := open(client)
	require.NoError(t, err)
	iss := &redistoken.Issuer{Client: pipeliner, Prefix: prefix}
	t.Cleanup(func() {
		require.NoError(t, iss.Close())
		require.NoError(t, pipeliner.Close())
	})
	return iss
}

// WAIT counts the replicas that have the writes of its own connection: on another one it
// would count a replica that has stopped.
func TestAnAutoPipelinerWaitsForReplicas(t *testing.T) {
	t.Parallel()
	for name, open := range faces {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			master, replica := testenv.OwnRedis(t), testenv.OwnRedis(t)
			replica.ReplicaOf(master)
			iss := through(t, master.Client(), "fencepost", open)
			iss.Replicas = 1
			_, err := iss.Acquire(t.Context(), "account/1", "A", time.Minute)
			require.NoError(t, err)
			replica.Pause()
			t.Cleanup(replica.Resume)
			require.EqualValues(t, 1, master.Client().Wait(t.Context(), 1, time.Second).Val(), "on another connection")
			_, err = iss.Acquire(t.Context(), "account/42", "A", 3*time.Second)
			require.ErrorIs(t, err, redistoken.ErrReplicas)
		})
	}
}

// The AutoPipeliner sends what it has queued, whatever has become of the caller's context.
// The lock of a caller that has left is free when its ttl has passed.
func TestAQueuedAcquireOfACallerThatHasLeft(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	iss := through(t, client, prefix, (*redis.Client).AutoPipeline)
	first, err := iss.Acquire(t.Context(), "account/1", "A", time.Minute) // the server has the script
	require.NoError(t, err)
	require.NoError(t, iss.Release(t.Context(), first.Token))
	block := &blocked{reached: make(chan struct{}), open: make(chan struct{})}
	client.AddHook(block)

	var calls sync.WaitGroup
	defer calls.Wait()
	calls.Go(func() {
		_, err := iss.Acquire(t.Context(), "account/1", "A", time.Minute)
		require.NoError(t, err)
	})
	<-block.reached
	ctx, leave := context.WithCancelCause(t.Context())
	left := make(chan error, 1)
	calls.Go(func() {
		_, err := iss.Acquire(ctx, "account/42", "A", 2*time.Second)
		left <- err
	})
	pipeliner := iss.Client.(*redis.AutoPipeliner)
	require.Eventually(t, func() bool { return pipeliner.Len() == 1 }, hang, time.Millisecond)
	gone := errors.New("the caller has left")
	leave(gone)
	require.ErrorIs(t, <-left, gone)
	close(block.open)

	other := &redistoken.Issuer{Client: client, Prefix: prefix}
	t.Cleanup(func() { require.NoError(t, other.Close()) })
	key := prefix + ":*lock:account/42"
	require.Eventually(t, func() bool { return len(client.Keys(t.Context(), key).Val()) == 1 }, hang, time.Millisecond,
		"the queued command is sent")
	wait, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	grant, err := other.Wait(wait, "account/42", "B", time.Minute)
	require.NoError(t, err)
	require.Greater(t, grant.Token.Number, first.Token.Number)
}

// blocked blocks the first batch before it is sent. A batch of one is no pipeline.
type blocked struct {
	once          sync.Once
	reached, open chan struct{}
}

func (b *blocked) block() { b.once.Do(func() { close(b.reached); <-b.open }) }

func (b *blocked) DialHook(next redis.DialHook) redis.DialHook { return next }

func (b *blocked) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { b.block(); return next(ctx, cmd) }
}

func (b *blocked) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { b.block(); return next(ctx, cmds) }
}
