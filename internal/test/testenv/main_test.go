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

// envRole makes this test binary the second process of a test.
const envRole = "FENCEPOST_TESTENV_ROLE"

func TestMain(m *testing.M) {
	var err error
	switch os.Getenv(envRole) {
	case "":
		leaktest.Main(m)
		return
	case "holder of a lock":
		_, err = testenv.LockFile("testenv-test")
		fmt.Println("locked")
	case "parent of a server":
		_, _, err = testenv.StartProgram(func(folder string, _ int) []string {
			fmt.Println(folder)
			return []string{"sh", "-c", "echo ready; exec sleep 1000"}
		})
		fmt.Println("started")
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	// Until this process is killed, or its parent is and the pipe closes.
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// another starts this test binary in a role. says returns its next line.
func another(t *testing.T, role string) (cmd *exec.Cmd, says func() string) {
	t.Helper()
	cmd = exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), envRole+"="+role)
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
