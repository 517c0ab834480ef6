package testenv_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/leaktest"
	"github.com/fencepost/fencepost/internal/test/testenv"
)

// envHolder makes this test binary a process that takes a lock.
const envHolder = "FENCEPOST_TESTENV_HOLDER"

func TestMain(m *testing.M) {
	if os.Getenv(envHolder) == "" {
		leaktest.Main(m)
	}
	if _, err := testenv.LockFile("testenv-test"); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("locked")
	// Until this process is killed, or its parent is and the pipe closes.
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// holder starts this test binary as a process that takes a lock. says returns its next
// line.
func holder(t *testing.T) (cmd *exec.Cmd, says func() string) {
	t.Helper()
	cmd = exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), envHolder+"=1")
	_, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Wait() }) // it was killed
	lines := bufio.NewScanner(out)
	return cmd, func() string {
		require.True(t, lines.Scan(), "the other process ended: %v", lines.Err())
		return lines.Text()
	}
}
