package redistoken_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
)

func TestWaitersOnAClusterAreServedInOrderAtEveryShard(t *testing.T) {
	t.Parallel()
	cluster := testenv.RedisCluster(t, 3, 0)
	client := cluster.Client()
	holder := &redistoken.Issuer{Client: client}
	processes := []*redistoken.Issuer{
		closing(t, &redistoken.Issuer{Client: client}), closing(t, &redistoken.Issuer{Client: client}),
	}
	for n := range 40 { // buckets, and with them slots, of all shards
		name := fmt.Sprint("account/", n)
		grant, err := holder.Acquire(t.Context(), name, "holder", long)
		require.NoError(t, err)
		var line []<-chan result
		for p, iss := range processes {
			got := make(chan result, 1)
			go func() {
				grant, err := iss.Wait(t.Context(), name, fmt.Sprint("waiter-", p), long)
				got <- result{grant, err}
			}()
			require.Eventually(t, func() bool {
				return client.ZCard(t.Context(), lineKey("fencepost", name)).Val() == int64(p+1)
			}, time.Minute, time.Millisecond)
			line = append(line, got)
		}
		last := grant.Token
		for p, got := range line {
			require.NoError(t, holder.Release(t.Context(), last))
			next := handed(t, got).Token
			require.Equal(t, fmt.Sprint("waiter-", p), next.Holder)
			require.Greater(t, next.Number, last.Number)
			last = next
		}
		require.NoError(t, holder.Release(t.Context(), last))
	}
	for _, node := range cluster.Nodes() {
		require.EqualValues(t, 1, subscribers(t, node)/len(processes), "one subscription a process and shard")
	}

	t.Run("PUBLISH counts nobody who hears it at another node", func(t *testing.T) {
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
			require.EqualValues(t, 0, client.Eval(t.Context(), naive, []string{lock}).Val(), "it must pass for dead")
			_, err = sub.ReceiveMessage(t.Context())
			require.NoError(t, err, "and yet be told")
		}
	})
}

// subscribers is how many connections of node are subscriptions.
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

func TestWaitersOnAClusterSurviveAFailover(t *testing.T) {
	t.Parallel()
	cluster := testenv.RedisCluster(t, 3, 1)
	client := cluster.Client()
	lock := lockKey("fencepost", resource)
	holder := &redistoken.Issuer{Client: client}
	grant, err := holder.Acquire(t.Context(), resource, "dying", 3*time.Second)
	require.NoError(t, err)
	iss := closing(t, &redistoken.Issuer{Client: client})
	got := waits(t.Context(), t, iss, client, "waiter", 3*time.Second)
	cluster.Failover(lock)
	next := handed(t, got).Token
	require.Greater(t, next.Number, grant.Token.Number)
	_, err = iss.Renew(t.Context(), next, long)
	require.NoError(t, err)

	// The new master is subscribed to as well.
	again := waits(t.Context(), t, iss, client, "again", long)
	require.NoError(t, holder.Release(t.Context(), next))
	require.Greater(t, handed(t, again).Token.Number, next.Number)
}

func TestAClusterClientThatAsksReplicasIsRefused(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]*redis.ClusterOptions{
		"ReadOnly": {ReadOnly: true}, "RouteByLatency": {RouteByLatency: true}, "RouteRandomly": {RouteRandomly: true},
	} {
		options.Addrs = []string{"127.0.0.1:1"}
		client := redis.NewClusterClient(options)
		defer client.Close()
		iss := &redistoken.Issuer{Client: client}
		_, err := iss.Acquire(t.Context(), resource, "a", long)
		require.ErrorContains(t, err, "asks replicas", name)
		_, err = iss.Wait(t.Context(), resource, "a", long)
		require.ErrorContains(t, err, "asks replicas", name)
		require.ErrorContains(t, iss.Raise(t.Context(), resource, 1), "asks replicas", name)
		batch := []token.Renewal{{Token: token.Token{Resource: resource, Number: 1, Holder: "a"}, TTL: long}}
		iss.RenewAll(t.Context(), batch)
		require.ErrorContains(t, batch[0].Err, "asks replicas", name)
	}
}
