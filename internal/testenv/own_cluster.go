package testenv

import (
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"
)

// ClusterOfRedis is a Redis Cluster that one test has for itself. Its methods
// are for the test's goroutine, and end the test where they fail.
type ClusterOfRedis struct {
	nodes  []*RedisServer // the masters of the beginning first
	client *redis.ClusterClient
}

// RedisCluster starts a Cluster of so many masters, and so many replicas of
// each. A master that has died is noticed after a second and followed by a
// replica a second later: at least three masters are needed for that. The
// settings come on top, for all nodes.
func RedisCluster(t testing.TB, masters, replicas int, settings ...string) *ClusterOfRedis {
	t.Helper()
	c := &ClusterOfRedis{}
	settings = append([]string{
		"--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-node-timeout", "1000",
		"--cluster-replica-validity-factor", "0", // the replica's data may be as old as it likes
		// A replica is unknown to clients until it was sent something.
		"--repl-ping-replica-period", "1",
	}, settings...)
	addrs := make([]string, masters*(1+replicas))
	for i := range addrs {
		c.nodes = append(c.nodes, OwnRedis(t, settings...))
		addrs[i] = c.nodes[i].Addr()
	}
	c.meet(masters)
	c.client = redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, PoolSize: manyErrors})
	t.Cleanup(func() { c.client.Close() }) // an error only says that the test closed it
	return c
}

// Client is one with go-redis's own settings, which is closed at the end of the
// test. It hears of a failover when it reloads what it knows: after ten seconds,
// with newer versions of go-redis after a minute, or when told to by ReloadState.
func (c *ClusterOfRedis) Client() *redis.ClusterClient { return c.client }

// Nodes are all servers: first those that were masters at the beginning, then
// their replicas, in turn.
func (c *ClusterOfRedis) Nodes() []*RedisServer { return slices.Clone(c.nodes) }

// Master is the server that has the key, as most of the others see it.
func (c *ClusterOfRedis) Master(key string) *RedisServer {
	t := c.nodes[0].own.t
	t.Helper()
	for _, node := range c.nodes {
		if node.own.alive != nil && node.isMaster() && node.has(key) {
			return node
		}
	}
	t.Fatalf("testenv: no node of the Cluster has %s", key)
	return nil
}

// Failover kills the master of key, waits until a replica has taken its place,
// and returns the dead one. It may be restarted: it comes back as a replica.
func (c *ClusterOfRedis) Failover(key string) *RedisServer {
	dead := c.Master(key)
	dead.own.t.Helper()
	dead.Kill()
	for _, node := range c.nodes {
		if node == dead || node.own.alive == nil {
			continue
		}
		node.eventually("no replica takes its master's place", func() bool {
			owner := node.owner(key)
			return owner != "" && owner != dead.Addr() && node.cluster("cluster_state:ok")
		})
	}
	return dead
}
