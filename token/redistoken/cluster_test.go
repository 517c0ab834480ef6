package redistoken_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token/redistoken"
)

func TestStressWaitersOnAClusterAreServedInOrderAtEveryShard(t *testing.T) {
	t.Parallel()
	cluster := testenv.RedisCluster(t, 3, 0)
	client := cluster.Client()
	holder := &redistoken.Issuer{Client: client}
	processes := []*redistoken.Issuer{
		closing(t, &redistoken.Issuer{Client: client}), closing(t, &redistoken.Issuer{Client: client}),
	}
	for n := range 40 { // buckets whose slots are on all shards
		name := fmt.Sprint("account/", n)
		grant, err := holder.Acquire(t.Context(), name, "holder", long)
		require.NoError(t, err)
		var queue []<-chan result
		for p, iss := range processes {
			got := make(chan result, 1)
			go func() {
				grant, err := iss.Wait(t.Context(), name, fmt.Sprint("waiter-", p), long)
				got <- result{grant, err}
			}()
			require.Eventually(t, func() bool {
				return client.ZCard(t.Context(), queueKey("fencepost", name)).Val() == int64(p+1)
			}, testTimeout, time.Millisecond)
			queue = append(queue, got)
		}
		last := grant.Token
		for p, got := range queue {
			require.NoError(t, holder.Release(t.Context(), last))
			next := awaitGrant(t, got).Token
			require.Equal(t, fmt.Sprint("waiter-", p), next.Holder)
			require.Greater(t, next.Number, last.Number)
			last = next
		}
		require.NoError(t, holder.Release(t.Context(), last))
	}
	for _, node := range cluster.Nodes() {
		require.EqualValues(t, 1, subscribers(t, node)/len(processes), "one subscription for each process and shard")
	}

	t.Run("PUBLISH does not count the subscribers of another node", func(t *testing.T) {
		lock := lockKey("fencepost", resource)
		for _, node := range cluster.Nodes() {
			if node == cluster.Master(lock) {
				continue
			}
			sub := node.Client().Subscribe(t.Context(), "naive")
			defer sub.Close()
			_, err := sub.Receive(t.Context())
			require.NoError(t, err)
			const naive = `return redis.call('PUBLISH', 'naive', KEYS[1])`
			require.EqualValues(t, 0, client.Eval(t.Context(), naive, []string{lock}).Val(), "the subscriber must seem dead")
			_, err = sub.ReceiveMessage(t.Context())
			require.NoError(t, err, "and yet be notified")
		}
	})
}

// subscribers returns how many connections of node are subscriptions.
func subscribers(t *testing.T, node *testenv.RedisServer) int {
	t.Helper()
	list, err := node.Client().Do(t.Context(), "CLIENT", "LIST", "TYPE", "pubsub").Text()
	require.NoError(t, err)
	n := 0
	for _, line := range splitLines(list) {
		if line != "" {
			n++
		}
	}
	return n
}

func TestStressWaitersOnAClusterSurviveAFailover(t *testing.T) {
	t.Parallel()
	cluster := testenv.RedisCluster(t, 3, 1)
	client := cluster.Client()
	lock := lockKey("fencepost", resource)
	holder := &redistoken.Issuer{Client: client}
	dying := acquire(t, holder, "dying")
	iss := closing(t, &redistoken.Issuer{Client: client})
	got := startWait(t.Context(), t, iss, client, "waiter", long)
	cluster.Failover(lock)
	expire(t, client, lock, "dying")
	next := awaitPolled(t, iss, got).Token
	require.Greater(t, next.Number, dying.Number)
	_, err := iss.Renew(t.Context(), next, long)
	require.NoError(t, err)

	// There is a subscription at the new master too.
	again := startWait(t.Context(), t, iss, client, "again", long)
	require.NoError(t, holder.Release(t.Context(), next))
	require.Greater(t, awaitGrant(t, again).Token.Number, next.Number)
}

// hazard R8
func TestKeysOfAResourceShareASlot(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	keys := &keyHook{}
	client.AddHook(keys)
	iss := &redistoken.Issuer{Client: client, Prefix: prefix}
	node := testenv.OwnRedis(t, "--cluster-enabled", "yes").Client()
	slot := func(key string) int64 {
		slot, err := node.ClusterKeySlot(t.Context(), key).Result()
		require.NoError(t, err)
		return slot
	}
	for _, name := range []string{
		"account/42", "{}", "{", "}", "a{b}c", "{a}{b}", "}{", "konto/größe", ":{7}:lock:x", strings.Repeat("{x}", 66),
	} {
		grant, err := iss.Acquire(t.Context(), name, "a", long)
		require.NoError(t, err)
		require.Len(t, keys.last, 3)
		lock, counter, queue := keys.last[0], keys.last[1], keys.last[2]
		require.Equal(t, slot(lock), slot(counter), "%s and %s", lock, counter)
		require.Equal(t, slot(lock), slot(queue), "%s and %s", lock, queue)
		require.Equal(t, lockKey(prefix, name), lock, "the format")
		require.Equal(t, counterKey(prefix, name), counter, "the format")
		require.Equal(t, queueKey(prefix, name), queue, "the format")
		_, err = iss.Renew(t.Context(), grant.Token, long)
		require.NoError(t, err)
		require.Equal(t, []string{lock}, keys.last)
		require.NoError(t, iss.Release(t.Context(), grant.Token))
		require.Equal(t, []string{lock, counter, queue}, keys.last)
	}

	// Literals: programs of all versions must find the same keys.
	require.Equal(t, "p:{50}:lock:account/42", lockKey("p", "account/42"))
	require.Equal(t, "p:{50}:counter", counterKey("p", "account/42"))

	require.NotEqual(t, slot("lock:"+resource), slot("counter:"+resource), "keys without a hash tag must part")
	require.NotEqual(t, slot("lock:{a}{b}"), slot("counter:{{a}{b}}"), "a tag made of the resource's name must part")
}

// keyHook records the keys of the last script.
type keyHook struct {
	hook
	mu   sync.Mutex
	last []string
}

func (h *keyHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); strings.HasPrefix(cmd.Name(), "eval") {
			h.mu.Lock()
			h.last = nil
			for _, key := range args[3 : 3+args[2].(int)] {
				h.last = append(h.last, key.(string))
			}
			h.mu.Unlock()
		}
		return next(ctx, cmd)
	}
}
