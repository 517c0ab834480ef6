package main

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
)

// The tests of the Python module start services, and stop and kill processes, by themselves.
func TestPython(t *testing.T) {
	t.Parallel()
	cmd, _ := command(t)
	cmd.Env = append(cmd.Env, "FENCEPOST_COMMAND="+cmd.Path, "FENCEPOST_TEST_REDIS_URL="+testenv.RedisURL(t),
		"FENCEPOST_TEST_POSTGRES_URL="+testenv.Database(t), "PYTHONDONTWRITEBYTECODE=1")
	cmd.Path, cmd.Dir = python(t), "../../python"
	cmd.Args = []string{cmd.Path, "-m", "unittest", "-v"}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	t.Log(string(out))
}

// python returns a Python with psycopg. Debian's package is for that of /usr/bin.
func python(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		path, err := exec.LookPath(name)
		if err == nil && exec.Command(path, "-c", "import psycopg").Run() == nil {
			return path
		}
	}
	require.FailNow(t, "no Python has psycopg: run 'make setup'", "PATH=%s", os.Getenv("PATH"))
	return ""
}
