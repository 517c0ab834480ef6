package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
)

// A node of a Cluster has a part of the names. One with all slots is refused too: they can
// move. A Sentinel has no names.
func TestARedisThatLacksNamesIsRefused(t *testing.T) {
	t.Parallel()
	cluster := testenv.RedisCluster(t, 1, 0).Nodes()[0]
	require.NoError(t, cluster.Client().Do(t.Context(), "ACL", "SETUSER", "app", "on", ">sekret", "~*", "&*", "+@all", "-info", "-hello", "-cluster").Err())
	withoutHello := []string{"--rename-command", "HELLO", ""} // as in Redis 5
	old := testenv.OwnRedis(t, append(withoutHello, "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf")...)
	watched := testenv.OwnRedis(t)
	sentinel := "redis://" + testenv.Sentinel(t, watched)
	for url, text := range map[string]string{
		"redis://" + cluster.Addr():                 "it is a node of a Cluster: ",
		"redis://app:sekret@" + cluster.Addr():      "it is a node of a Cluster: ",
		"redis://" + cluster.Addr() + "?protocol=2": "it is a node of a Cluster: ",
		"redis://" + old.Addr():                     "it is a node of a Cluster: ",
		sentinel:                                    "it is a Sentinel: ",
	} {
		requireFailed(t, execute(t, "run", "--redis", url, "job", "true"), 125, text)
		requireFailed(t, execute(t, "simulate", "--rounds", "1", "--redis", url), 2, text)
		requireFailed(t, execute(t, "proxy", "--upstream", "http://127.0.0.1:1", "--resource", "a/{id}", "--listen", "127.0.0.1:0", "--store", url), 2, text)
	}
	require.Contains(t, execute(t, "doctor", "--redis", "redis://"+cluster.Addr()).out, "redis_mode:cluster: this node alone was examined")
	require.Contains(t, execute(t, "doctor", "--redis", sentinel).out, "redis_mode:sentinel")

	hidden := testenv.OwnRedis(t, append(withoutHello, "--rename-command", "INFO", "", "--unixsocket", "redis.sock")...)
	folder := hidden.Client().ConfigGet(t.Context(), "dir").Val()["dir"]
	for _, url := range []string{"redis://" + watched.Addr(), "redis://" + hidden.Addr(), "unix://" + folder + "/redis.sock"} {
		done := execute(t, "run", "--redis", url, "job", "true")
		require.Zero(t, done.status, done.err)
	}
}
