//go:build unix

package main

import (
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	network "github.com/fencepost/fencepost/internal/netfault"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token"
)

// says is a shell script that prints its token, the id of a process that it starts, and
// its own id.
const says = `sleep 1000 & echo "$FENCING_TOKEN"; echo $!; echo $$; `

// The server gives the lock to another holder while the first one holds it.
func TestRunStopsTheProgramWhenTheLockIsLost(t *testing.T) {
	t.Parallel()
	for name, lock := range runLocks(t) {
		for how, script := range map[string]string{
			"a program that ends when it is asked":    says + "wait",
			"a program that does not":                 `trap "" TERM; ` + says + "while true; do wait; done",
			"a program that takes it for its success": `trap "exit 0" TERM; ` + says + "wait",
			"a program that stands":                   says + "kill -STOP $$",
		} {
			t.Run(name+": "+how, func(t *testing.T) {
				t.Parallel()
				lasting(t, time.Second, func(ttl time.Duration) bool {
					r := startRun(t, lock, []string{"--ttl", ttl.String()}, "job/"+how, "sh", "-c", script)
					var tok token.Token
					if !r.prints(3) {
						return false // it was lost before
					}
					require.NoError(t, tok.UnmarshalText([]byte(r.line(1))))
					if lock.Release(t.Context(), tok) != nil {
						return false
					}
					require.Equal(t, 123, r.status())
					require.Contains(t, r.errs.String(), "the program was stopped: token: lease on "+tok.String()+" lost")
					require.Equal(t, 1, strings.Count(r.errs.String(), "\n"), r.errs.String())
					requireEnded(t, r)
					return true
				})
			})
		}
	}
}

// requireEnded requires that the program and the process that it has started have ended.
func requireEnded(t *testing.T, r *ran) {
	t.Helper()
	group := 0
	for _, digit := range r.line(3) {
		group = 10*group + int(digit-'0')
	}
	require.Eventually(t, func() bool { // their last parent has to collect the last of them
		return errors.Is(syscall.Kill(-group, 0), syscall.ESRCH)
	}, eventually, time.Millisecond)
}

// ticks writes the time into a file, again and again, and ignores SIGTERM.
const ticks = `trap "" TERM; while true; do date +%s.%N >>"$0"; sleep 0.01; done`

// hazard L1
// A holder that cannot reach the server has ended its program before the next holder's
// program begins.
func TestRunEndsTheProgramBeforeAnotherBegins(t *testing.T)       { oneProgramAtATime(t) }
func TestStressRunEndsTheProgramBeforeAnotherBegins(t *testing.T) { oneProgramAtATime(t) }

func oneProgramAtATime(t *testing.T) {
	t.Parallel()
	for name, lock := range testenv.Some(t, runLocks(t), "redis") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// A process that gets no processor for a part of the lease ends its program late.
			lasting(t, 3*time.Second, func(ttl time.Duration) bool {
				through, cut := behind(t, lock)
				name, file := "job/"+ttl.String(), filepath.Join(t.TempDir(), "ticks")
				r := startRun(t, through, []string{"--ttl", ttl.String(), "--grace", (ttl / 5).String()}, name, "sh", "-c", ticks, file)
				require.Eventually(t, func() bool { return lastTick(t, file) != "" || r.hasEnded() }, eventually, time.Millisecond)
				time.Sleep(ttl * 2 / 5) // a renewal, as it is in the middle of a program
				cut()
				if r.hasEnded() {
					return false
				}
				begun := lock.execute(t, name, "date", "+%s.%N")
				for ; begun.status == 75; begun = lock.execute(t, name, "date", "+%s.%N") {
					time.Sleep(10 * time.Millisecond)
				}
				require.Zero(t, begun.status, begun.err)
				require.Equal(t, 123, r.status())
				return lastTick(t, file) < strings.TrimSpace(begun.out)
			})
		})
	}
	t.Run("the same program under a lock that is not watched runs on", func(t *testing.T) {
		t.Parallel()
		lock := runLocks(t)["redis"]
		_, err := lock.Acquire(t.Context(), "job", "naive", 200*time.Millisecond)
		require.NoError(t, err)
		file := filepath.Join(t.TempDir(), "ticks")
		naive := exec.Command("sh", "-c", ticks, file)
		require.NoError(t, naive.Start())
		defer func() { _ = naive.Process.Kill(); _ = naive.Wait() }()
		begun := startRun(t, lock, []string{"--wait", "1h"}, "job", "date", "+%s.%N")
		require.Zero(t, begun.status())
		require.Eventually(t, func() bool { return lastTick(t, file) > strings.TrimSpace(begun.out.String()) },
			eventually, time.Millisecond)
	})
}

// behind puts a proxy before the server, and returns a function that makes it a partition.
func behind(t *testing.T, lock runLock) (through runLock, cut func()) {
	t.Helper()
	server, err := url.Parse(lock.url)
	require.NoError(t, err)
	p, err := network.Start(server.Host)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	server.Host = p.Addr()
	return lock.at(server.String()), func() { p.Blackhole(network.ToServer | network.ToClient) }
}

func lastTick(t *testing.T, file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return "" // not yet
	}
	lines := strings.Fields(string(text))
	if len(lines) == 0 {
		return ""
	}
	return lines[len(lines)-1]
}
