package redistoken_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
)

func TestWaitersBehindASentinelSurviveAFailover(t *testing.T) {
	t.Parallel()
	master, replica := testenv.OwnRedis(t), testenv.OwnRedis(t)
	replica.ReplicaOf(master)
	client := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "main", SentinelAddrs: []string{sentinel(t, master)}})
	defer client.Close()
	iss := closing(t, &redistoken.Issuer{Client: client})
	grant, err := iss.Acquire(t.Context(), resource, "dying", 3*time.Second)
	require.NoError(t, err)
	got := waits(t.Context(), t, iss, client, "waiter", 3*time.Second)
	master.Kill()
	next := handed(t, got).Token
	require.Greater(t, next.Number, grant.Token.Number)

	again := waits(t.Context(), t, closing(t, &redistoken.Issuer{Client: client}), client, "again", long)
	require.Equal(t, replica.Addr(), masterOf(t, client))
	if err := iss.Release(t.Context(), next); err != nil { // or its time was up
		require.ErrorIs(t, err, token.ErrLost)
	}
	require.Greater(t, handed(t, again).Token.Number, next.Number)
}

// sentinel starts one that watches master, and returns its address when it
// knows the replica.
func sentinel(t *testing.T, master *testenv.RedisServer) string {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	host, masterPort, err := net.SplitHostPort(master.Addr())
	require.NoError(t, err)
	folder := t.TempDir()
	file := filepath.Join(folder, "sentinel.conf")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, "port %s\nbind 127.0.0.1\ndir %s\nsentinel monitor main %s %s 1\n"+
		"sentinel down-after-milliseconds main 500\nsentinel failover-timeout main 3000\n", port, folder, host, masterPort), 0o600))
	cmd := exec.Command(path, file, "--sentinel")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	addr := net.JoinHostPort("127.0.0.1", port)
	own := redis.NewSentinelClient(&redis.Options{Addr: addr})
	defer own.Close()
	require.Eventually(t, func() bool {
		info, err := own.Master(t.Context(), "main").Result()
		return err == nil && info["num-slaves"] == "1"
	}, time.Minute, 20*time.Millisecond)
	return addr
}

// masterOf is the address of the server that client talks to.
func masterOf(t *testing.T, client *redis.Client) string {
	t.Helper()
	port, err := client.ConfigGet(t.Context(), "port").Result()
	require.NoError(t, err)
	return net.JoinHostPort("127.0.0.1", port["port"])
}
