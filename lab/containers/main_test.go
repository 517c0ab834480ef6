package main

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// envLauncher makes this test binary the launcher.
const envLauncher = "FENCEPOST_CONTAINERS_TEST_LAUNCHER"

func TestMain(m *testing.M) {
	if os.Getenv(envLauncher) != "" {
		main()
	}
	os.Exit(m.Run())
}

func TestTheArgumentsHaveTheServersInTheRoot(t *testing.T) {
	t.Parallel()
	cmd := launcher(t, "--", "sh", "-c", "pwd; env; cat; exit 7")
	cmd.Stdin = strings.NewReader("the input\n")
	out, err := cmd.Output()
	require.Error(t, err)
	require.Equal(t, 7, cmd.ProcessState.ExitCode(), "%s", out)
	lines := strings.Split(string(out), "\n")
	require.FileExists(t, filepath.Join(lines[0], "lab", "containers", "main_test.go"))
	require.Contains(t, lines, "the input")
	seen := map[string]bool{}
	for _, s := range all() {
		for _, line := range lines {
			if url, named := strings.CutPrefix(line, s.env+"="); named {
				seen[url] = true
				require.Error(t, queryVersion(t.Context(), url), "%s outlived the launcher", s.env)
			}
		}
	}
	require.Len(t, seen, len(all()), "%s", out)
}

func TestTheServersAnswer(t *testing.T) {
	t.Parallel()
	started, err := start(t.Context(), all())
	defer func() { require.NoError(t, started.remove()) }()
	require.NoError(t, err)
	for _, s := range started {
		require.NoError(t, queryVersion(t.Context(), s.address), s.env)
	}
}

func TestAnInterruptEndsTheArgumentsAndTheServers(t *testing.T) {
	t.Parallel()
	cmd := launcher(t, "sh", "-c", "echo $FENCEPOST_TEST_REDIS_URL; exec sleep 1000")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	url, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	url = strings.TrimSpace(url)
	require.NoError(t, queryVersion(t.Context(), url))

	require.NoError(t, cmd.Process.Signal(os.Interrupt))

	require.Error(t, cmd.Wait())
	require.Equal(t, statusInterrupted, cmd.ProcessState.ExitCode())
	require.Error(t, queryVersion(t.Context(), url), "the server outlived the launcher")
}

func TestAMissingPrerequisiteIsReported(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args   []string
		env    string
		status int
		says   string
	}{
		"arguments": {nil, "", statusUsage, "usage: "},
		"the image": {[]string{"true"}, "FENCEPOST_TEST_REDIS_IMAGE=localhost:1/nothing:1", statusFailed, "start localhost:1/nothing:1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := launcher(t, c.args...)
			cmd.Env, cmd.Stderr = append(cmd.Env, c.env), nil
			out, err := cmd.CombinedOutput()
			require.Error(t, err)
			require.Equal(t, c.status, cmd.ProcessState.ExitCode(), "%s", out)
			require.Contains(t, string(out), c.says)
		})
	}
}

func launcher(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), envLauncher+"=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(stderr.String())
		}
	})
	return cmd
}

// queryVersion sends a request for the version to the server of the URL.
func queryVersion(ctx context.Context, url string) error {
	if strings.HasPrefix(url, "redis:") {
		options, err := goredis.ParseURL(url)
		if err != nil {
			return err
		}
		client := goredis.NewClient(options)
		defer client.Close()
		return client.Info(ctx, "server").Err()
	}
	if strings.Contains(url, "@tcp(") {
		db, err := sql.Open("mysql", url)
		if err != nil {
			return err
		}
		defer db.Close()
		return db.PingContext(ctx)
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return conn.QueryRow(ctx, "SELECT version()").Scan(new(string))
}
