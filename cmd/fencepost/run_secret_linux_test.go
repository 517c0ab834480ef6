package main

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The program and the watchdog do not use the servers of Fencepost: URLs, which may have a
// password, are in the environment of neither.
func TestRunKeepsURLsFromTheProgram(t *testing.T) {
	t.Parallel()
	for name, lock := range runLocks(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			variable, url := "FENCEPOST_REDIS_URL", strings.Replace(lock.url, "//", "//default:sekret@", 1)
			if lock.flag == "--postgres" {
				variable, url = "FENCEPOST_POSTGRES_URL", lock.url+"&application_name=sekret"
			}
			lock.flags = lock.own
			r := prepareRun(t, lock, []string{"-v"}, "job", "sh", "-c", says+"env; wait")
			r.cmd.Env = append(slices.DeleteFunc(r.cmd.Env, func(v string) bool {
				return strings.HasPrefix(v, "FENCEPOST_REDIS_URL=") || strings.HasPrefix(v, "FENCEPOST_POSTGRES_URL=")
			}), variable+"="+url, "FENCEPOST_MYSQL_DSN=sekret", "FENCEPOST_STORE=sekret", "FENCEPOST_LOCKS_BREAK_GUARD=sekret",
				"FENCEPOST_SERVE_GUARD=sekret", "FENCEPOST_BEARER=sekret", "FENCEPOST_SIMULATE_REDIS=sekret", "FENCEPOST_SIMULATE_POSTGRES=sekret", "FENCEPOST_SCHEMA=kept", "OF_THE_USER=kept")
			r.start()
			run, watchdog, program := r.cmd.Process.Pid, watchdogOf(t, r), programs(t, r)[1]
			require.Contains(t, ofProcess(t, run, "environ"), variable+"="+url)
			require.Contains(t, ofProcess(t, program, "environ"), "FENCEPOST_SCHEMA=kept")
			require.Contains(t, ofProcess(t, program, "environ"), "OF_THE_USER=kept")
			for _, pid := range []int{watchdog, program} {
				require.NotContains(t, ofProcess(t, pid, "environ"), "sekret")
				require.NotContains(t, ofProcess(t, pid, "environ"), variable)
			}
			for _, pid := range []int{run, watchdog, program} {
				require.NotContains(t, ofProcess(t, pid, "cmdline"), "sekret")
			}
			require.NotContains(t, r.out.String()+r.errs.String(), "sekret")
		})
	}
}

func ofProcess(t *testing.T, pid int, file string) string {
	t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/" + file)
	require.NoError(t, err)
	return string(text)
}
