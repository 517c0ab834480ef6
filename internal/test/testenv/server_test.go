package testenv_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
)

func TestAServerForProgramsHasItsSettingsAndEnds(t *testing.T) {
	t.Parallel()
	s, err := testenv.StartPostgres("fsync=on", "max_wal_size=2GB")
	require.NoError(t, err)
	conn, err := pgx.Connect(t.Context(), s.URL)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	var settings string
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT current_setting('fsync') || ' ' || current_setting('max_wal_size')").Scan(&settings))
	require.Equal(t, "on 2GB", settings)

	require.NoError(t, s.Stop())

	require.Error(t, conn.Ping(t.Context()))
}

func TestARedisForProgramsEnds(t *testing.T) {
	t.Parallel()
	s, err := testenv.StartRedis()
	require.NoError(t, err)
	options, err := redis.ParseURL(s.URL)
	require.NoError(t, err)
	client := redis.NewClient(options)
	defer client.Close()
	require.NoError(t, client.Ping(t.Context()).Err())
	require.NoError(t, s.Stop())
	require.Error(t, client.Ping(t.Context()).Err())
}

func TestRoundsReadsTheEnvironment(t *testing.T) {
	const variable = "FENCEPOST_TESTENV_TEST_ROUNDS"
	require.Equal(t, 7, testenv.Rounds(t, variable, 7))
	t.Setenv(variable, "1000")
	require.Equal(t, 1000, testenv.Rounds(t, variable, 7))
	for _, odd := range []string{"0", "-1", "many", "1e3"} {
		t.Setenv(variable, odd)
		ended := &ended{TB: t}
		require.PanicsWithValue(t, ended, func() { testenv.Rounds(ended, variable, 7) })
		require.Contains(t, ended.text, odd)
	}
}

// ended is a test that records why Fatalf ended it.
type ended struct {
	testing.TB
	text string
}

func (e *ended) Fatalf(format string, args ...any) {
	e.text = fmt.Sprintf(format, args...)
	panic(e)
}

// shared returns the segments of shared memory of this machine.
func shared(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ipcs", "-m").Output()
	require.NoError(t, err)
	return string(out)
}

func TestAKilledPostgresLeavesNoSharedMemory(t *testing.T) {
	t.Parallel()
	var segment string
	t.Run("server", func(t *testing.T) {
		server := testenv.OwnPostgres(t)
		conn := open(t, server.URL())
		data := column[string](t, conn, "SHOW data_directory")[0]
		require.NotContains(t, column[string](t, conn, "SHOW dynamic_shared_memory_type"), "posix", "a file in /dev/shm")
		text, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
		require.NoError(t, err)
		segment = strings.Fields(strings.Split(string(text), "\n")[6])[1]
		require.Contains(t, strings.Fields(shared(t)), segment)
		server.Kill()
		require.Contains(t, strings.Fields(shared(t)), segment, "a killed server frees nothing")
	})
	require.NotContains(t, strings.Fields(shared(t)), segment)
}

func TestAMissingServerSaysWhatToDo(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestTheKeysOfATestAreRemovedAndOthersStay$")
	cmd.Env = []string{"PATH=/nowhere"}
	out, err := cmd.CombinedOutput()
	require.Error(t, err, "%s", out)
	for _, advice := range []string{"PATH has no redis-server", "`make setup`", testenv.EnvRedis} {
		require.Contains(t, string(out), advice)
	}
	require.NotContains(t, string(out), "SKIP")
}
