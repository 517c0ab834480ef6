package testenv_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
)

func TestAClusterElectsAReplicaOfADeadMaster(t *testing.T) {
	t.Parallel()
	c := testenv.RedisCluster(t, 3, 1)
	require.Len(t, c.Nodes(), 6)
	for _, key := range []string{"a", "b", "c", "d"} {
		require.NoError(t, c.Client().Set(t.Context(), key, 1, 0).Err())
	}
	master := c.Master("a")
	require.Contains(t, c.Nodes()[:3], master)

	dead := c.Failover("a")

	require.Same(t, master, dead)
	require.NotSame(t, dead, c.Master("a"))
	c.Client().ReloadState(t.Context())
	require.Eventually(t, func() bool { return c.Client().Set(t.Context(), "a", 2, 0).Err() == nil }, testTimeout, pause)
	dead.Restart()
	require.Eventually(t, func() bool {
		return c.Master("a") != dead && c.Client().Set(t.Context(), "a", 3, 0).Err() == nil
	}, testTimeout, pause, "the dead master comes back as a replica")
}

func TestAnOwnPostgresKeepsCommits(t *testing.T) {
	t.Parallel()
	server := testenv.OwnPostgres(t, "wal_writer_delay=10s", "work_mem=1MB")
	conn := open(t, server.URL())
	require.Equal(t, []string{"1MB"}, column[string](t, conn, "SHOW work_mem"))
	run(t, conn, "CREATE TABLE kept (synchronous boolean)")
	run(t, conn, "INSERT INTO kept VALUES (true)")
	run(t, conn, "SET synchronous_commit = off")
	run(t, conn, "INSERT INTO kept VALUES (false)")
	server.Kill()
	server.Kill()
	require.Error(t, conn.Ping(t.Context()))
	server.Restart()
	require.Equal(t, []bool{true}, column[bool](t, open(t, server.URL()), "SELECT synchronous FROM kept"))
}

func TestAStandbyFollowsUntilItIsCutOff(t *testing.T) {
	t.Parallel()
	primary := testenv.OwnPostgres(t)
	run(t, open(t, primary.URL()), "CREATE TABLE numbers (n bigint)")
	standby := primary.Standby("hot_standby_feedback=on")
	run(t, open(t, primary.URL()), "INSERT INTO numbers VALUES (1)")
	primary.CaughtUp()
	require.Equal(t, []int64{1}, numbers(t, open(t, standby.URL())))
	standby.CutOff()
	run(t, open(t, primary.URL()), "INSERT INTO numbers VALUES (2)")
	standby.Restart()
	require.Equal(t, []int64{1}, numbers(t, open(t, standby.URL())), "the standby stays cut off")

	standby.Promote()
	run(t, open(t, standby.URL()), "INSERT INTO numbers VALUES (3)")
	standby.Restart()
	require.Equal(t, []int64{1, 3}, numbers(t, open(t, standby.URL())))
	require.Equal(t, []int64{1, 2}, numbers(t, open(t, primary.URL())), "the old primary does not have the standby's write")
}

func numbers(t *testing.T, conn *pgx.Conn) []int64 {
	t.Helper()
	return column[int64](t, conn, "SELECT n FROM numbers ORDER BY n")
}

// Only a hang reaches the timeout.
const (
	testTimeout = 2 * time.Minute
	pause       = 10 * time.Millisecond
)

func TestAnOwnRedisPersistsAsItsSettingsSay(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string]struct {
		argv []string
		kept int64
	}{
		"nothing by itself":           {nil, 0},
		"all with an append-only log": {[]string{"--appendonly", "yes", "--appendfsync", "always"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testenv.OwnRedis(t, settings.argv...)
			addr, client := server.Addr(), server.Client()
			require.NoError(t, client.Set(t.Context(), "key", 1, 0).Err())
			server.Kill()
			server.Kill()
			require.Error(t, client.Ping(t.Context()).Err(), "the killed server answers")
			server.Restart()
			require.Equal(t, addr, server.Addr())
			require.Equal(t, settings.kept, client.Exists(t.Context(), "key").Val())
			server.Restart()
			require.Equal(t, settings.kept, client.Exists(t.Context(), "key").Val(), "Restart kills a running server")
		})
	}
}

func TestAPausedRedisAnswersWhenItGoesOn(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	other := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: 100 * time.Millisecond, MaxRetries: -1})
	defer other.Close()
	require.NoError(t, server.Client().Ping(t.Context()).Err())
	server.Pause()
	require.Error(t, other.Ping(t.Context()).Err())
	server.Resume()
	require.NoError(t, server.Client().Ping(t.Context()).Err())
	server.Pause()
	server.Kill()
	server.Restart()
}

func TestAReplicaThatIsCutOffHasWhatItReceived(t *testing.T) {
	t.Parallel()
	master, replica := testenv.OwnRedis(t), testenv.OwnRedis(t)
	require.NoError(t, master.Client().Set(t.Context(), "before", 1, 0).Err())
	replica.ReplicaOf(master)
	replica.CutOff()
	require.NoError(t, master.Client().Set(t.Context(), "after", 1, 0).Err())
	replica.Promote()
	require.NoError(t, replica.Client().Set(t.Context(), "own", 1, 0).Err())
	require.EqualValues(t, 1, replica.Client().Exists(t.Context(), "before", "after").Val())
}

// This test starts its own binary as a second process.
func TestAnOwnServerIsGoneWhenItsTestProcessWasKilled(t *testing.T) {
	t.Parallel()
	const isOther = "FENCEPOST_TESTENV_OWNER"
	if os.Getenv(isOther) != "" {
		fmt.Println(testenv.OwnRedis(t).Addr())
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	other := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	other.Env = append(os.Environ(), isOther+"=1")
	_, err := other.StdinPipe()
	require.NoError(t, err)
	out, err := other.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, other.Start())
	addr, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	client := redis.NewClient(&redis.Options{Addr: strings.TrimSpace(addr), MaxRetries: -1})
	defer client.Close()
	folder := client.ConfigGet(t.Context(), "dir").Val()["dir"]
	require.DirExists(t, folder)
	require.NoError(t, other.Process.Kill())
	_ = other.Wait() // it was killed
	require.Eventually(t, func() bool {
		_, err := os.Stat(folder)
		return os.IsNotExist(err) && client.Ping(t.Context()).Err() != nil
	}, testTimeout, pause)
}

func TestAMissingBinaryOfAnOwnServerIsReported(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAReplicaThatIsCutOffHasWhatItReceived$")
	cmd.Env = []string{"PATH=/nowhere"}
	out, err := cmd.CombinedOutput()
	require.Error(t, err, "%s", out)
	require.Contains(t, string(out), "PATH has no redis-server")
	require.Contains(t, string(out), "`make setup`")
}
