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

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
)

// Far above what is waited for, which only a hang reaches.
const (
	patience = 30 * time.Second
	pause    = 10 * time.Millisecond
)

func TestAnOwnRedisKeepsWhatItsSettingsSay(t *testing.T) {
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
			require.Error(t, client.Ping(t.Context()).Err(), "it answers from the grave")
			server.Restart()
			require.Equal(t, addr, server.Addr())
			require.Equal(t, settings.kept, client.Exists(t.Context(), "key").Val())
			server.Restart()
			require.Equal(t, settings.kept, client.Exists(t.Context(), "key").Val(), "one that ran was killed")
		})
	}
}

func TestAPausedRedisAnswersWhenItGoesOn(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	other := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: 100 * time.Millisecond, MaxRetries: -1})
	defer other.Close()
	require.NoError(t, other.Ping(t.Context()).Err())
	server.Pause()
	require.Error(t, other.Ping(t.Context()).Err())
	server.Resume()
	require.NoError(t, server.Client().Ping(t.Context()).Err())
	server.Pause()
	server.Kill()
	server.Restart()
}

func TestAReplicaThatIsCutOffHasWhatItGot(t *testing.T) {
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

// This test is its own other process.
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
	}, patience, pause)
}

func TestAMissingBinaryOfAnOwnServerIsSaid(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAReplicaThatIsCutOffHasWhatItGot$")
	cmd.Env = []string{"PATH=/nowhere"}
	out, err := cmd.CombinedOutput()
	require.Error(t, err, "%s", out)
	require.Contains(t, string(out), "PATH has no redis-server")
	require.Contains(t, string(out), "`make setup`")
}
