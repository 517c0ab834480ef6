package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/serverproc"
	"github.com/fencepost/fencepost/internal/test/testenv"
)

// envCommand makes this test binary the command.
const envCommand = "FENCEPOST_TESTSERVERS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(envCommand) != "" {
		main()
	}
	os.Exit(m.Run())
}

// However a run ends, it leaves no process and no folder.
func TestARunThatEndsEarlyLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]syscall.Signal{"interrupted": syscall.SIGINT, "terminated": syscall.SIGTERM, "killed": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "sh", "-c", `mkdir "$TMPDIR/left"; sleep 1000 & echo "$TMPDIR" $!; exec sleep 1000`)
			// A Redis starts fastest.
			cmd.Env = append(os.Environ(), envCommand+"=1", testenv.EnvPostgres+"=-", testenv.EnvMariaDB+"=-", testenv.EnvRedis+"=", serverproc.EnvCommon+"=")
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			lines := bufio.NewScanner(out)
			require.True(t, lines.Scan(), "it has ended: %v", lines.Err())
			folder, pid, _ := strings.Cut(lines.Text(), " ")
			servers, err := filepath.Glob(filepath.Join(folder, "*", "pid"))
			require.NoError(t, err)
			require.Len(t, servers, 1)
			server, err := os.ReadFile(servers[0])
			require.NoError(t, err)
			require.NoError(t, cmd.Process.Signal(end)) // the sleep in the background does not get it
			_ = cmd.Wait()
			for _, pid := range []string{pid, strings.TrimSpace(string(server))} {
				number, err := strconv.Atoi(pid)
				require.NoError(t, err)
				require.Eventually(t, func() bool { return syscall.Kill(number, 0) != nil }, 2*time.Minute, 10*time.Millisecond)
			}
			require.Eventually(t, func() bool { _, err := os.Stat(folder); return os.IsNotExist(err) }, 2*time.Minute, 10*time.Millisecond)
		})
	}
}
