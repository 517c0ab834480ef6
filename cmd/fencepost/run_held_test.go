//go:build unix

package main

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
	"github.com/fencepost/fencepost/token/redistoken"
)

func TestRunOfALockThatIsHeld(t *testing.T) {
	t.Parallel()
	for name, lock := range runLocks(t) {
		grant, err := lock.Acquire(t.Context(), "job", "another", time.Hour)
		require.NoError(t, err)
		for rule, c := range map[string]struct {
			flags  []string
			waits  bool
			status int
			says   string
		}{
			"ends at once, and says nothing":     {nil, false, 75, ""},
			"ends with the status of its flag":   {[]string{"--held-status", "0"}, false, 0, ""},
			"prints the holder, with -v":         {[]string{"-v"}, false, 75, `"another"`},
			"ends when it has waited for enough": {nil, true, 75, ""},
		} {
			t.Run(name+" "+rule, func(t *testing.T) {
				t.Parallel()
				lasting(t, 200*time.Millisecond, func(wait time.Duration) bool {
					flags := c.flags
					if c.waits {
						flags = []string{"--wait", wait.String()}
					}
					r := startRun(t, lock, flags, grant.Token.Resource, "echo", "ran")
					if c.waits && r.status() == 125 {
						return false // the server had not answered by then
					}
					require.Equal(t, c.status, r.status(), r.errs.String())
					require.Empty(t, r.out.String())
					require.Contains(t, r.errs.String(), c.says)
					require.Equal(t, c.says == "", r.errs.String() == "", r.errs.String())
					return true
				})
			})
		}
	}
}

func TestRunWaitsForTheLock(t *testing.T) {
	t.Parallel()
	for name, lock := range runLocks(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			holder := startRun(t, lock, nil, "job", "sh", "-c", "echo $$; exec sleep 1000")
			waiter := startRun(t, lock, []string{"-v", "--wait", "1h"}, "job", "sh", "-c", "kill -0 "+holder.line(1)+" && echo one; echo two")
			require.Eventually(t, func() bool { return strings.Contains(waiter.errs.String(), "waiting") }, eventually, time.Millisecond)
			holder.signal(syscall.SIGTERM)
			require.Equal(t, 143, holder.status())
			require.Zero(t, waiter.status(), waiter.errs.String())
			require.Equal(t, "two\n", waiter.out.String(), "the holder's program has ended before the waiter's begins")
		})
	}
}

// contest is a lock for which a run can wait.
type contest struct {
	lock   runLock
	waits  func() bool
	revoke func() // the run's rights
	denied string
}

var contests = map[string]func(t *testing.T) contest{
	"redis": func(t *testing.T) contest {
		server := testenv.OwnRedis(t)
		client := server.Client()
		lock := runLock{url: "redis://" + server.Addr(), flag: "--redis", Issuer: &redistoken.Issuer{Client: client}}
		return contest{lock, func() bool { return len(client.Keys(t.Context(), "*queue:job").Val()) > 0 }, func() {
			require.NoError(t, client.Do(t.Context(), "ACL", "SETUSER", "default", "-evalsha").Err())
		}, "NOPERM"}
	},
	"postgres": func(t *testing.T) contest {
		pool, schema := testenv.Postgres(t)
		exec := func(sql string) {
			_, err := pool.Exec(context.WithoutCancel(t.Context()), strings.ReplaceAll(sql, "it", pgx.Identifier{schema}.Sanitize()))
			require.NoError(t, err)
		}
		exec("CREATE ROLE it")
		t.Cleanup(func() { exec("DROP OWNED BY it"); exec("DROP ROLE it") })
		exec("GRANT USAGE ON SCHEMA it TO it")
		server, err := url.Parse(testenv.PostgresURL(t))
		require.NoError(t, err)
		query := server.Query()
		query.Set("role", schema)
		server.RawQuery = query.Encode()
		lock := runLock{url: server.String(), flag: "--postgres", own: []string{"--schema", schema}, Issuer: &pgtoken.Issuer{DB: pool, Schema: schema}}
		return contest{lock, func() (waits bool) {
			require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) > 0 FROM "+pgx.Identifier{schema, "waiters"}.Sanitize()).Scan(&waits))
			return waits
		}, func() { exec("REVOKE USAGE ON SCHEMA it FROM it") }, "42501"}
	},
}

// A run whose wait fails has not found the lock held: it ends with 125, and says why.
func TestRunWhoseWaitFails(t *testing.T) {
	t.Parallel()
	for name, begin := range contests {
		t.Run(name+", its rights are revoked", func(t *testing.T) {
			t.Parallel()
			lasting(t, time.Second, func(ttl time.Duration) bool {
				c := begin(t)
				grant, err := c.lock.Acquire(t.Context(), "job", "another", ttl)
				require.NoError(t, err)
				r := startRun(t, c.lock.at(c.lock.url), []string{"--wait", "1h"}, "job", "echo", "ran")
				require.Eventually(t, func() bool { return c.waits() || r.hasEnded() }, eventually, time.Millisecond)
				// The waiter polls when the first ttl has passed.
				if _, err := c.lock.Renew(t.Context(), grant.Token, time.Hour); err != nil {
					return false
				}
				c.revoke()
				require.Equal(t, 125, r.status(), r.errs.String())
				require.Contains(t, r.errs.String(), c.denied)
				return true
			})
		})
		t.Run(name+", the server does not answer at the end", func(t *testing.T) {
			t.Parallel()
			lasting(t, time.Second, func(wait time.Duration) bool {
				c := begin(t)
				_, err := c.lock.Acquire(t.Context(), "job", "another", time.Hour)
				require.NoError(t, err)
				through, cut := behind(t, c.lock)
				r := startRun(t, through, []string{"--wait", wait.String()}, "job", "echo", "ran")
				require.Eventually(t, func() bool { return c.waits() || r.hasEnded() }, eventually, time.Millisecond)
				cut()
				if r.status() == 75 {
					return false // the wait was over before
				}
				require.Equal(t, 125, r.status(), r.errs.String())
				require.Contains(t, r.errs.String(), token.ErrUnreachable.Error())
				return true
			})
		})
	}
}

func TestRunThatIsInterruptedWhileItWaits(t *testing.T) {
	t.Parallel()
	for name, lock := range runLocks(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			grant, err := lock.Acquire(t.Context(), "job", "another", time.Hour)
			require.NoError(t, err)
			r := startRun(t, lock, []string{"-v", "--wait", "1h"}, "job", "echo", "ran")
			require.Eventually(t, func() bool { return strings.Contains(r.errs.String(), "waiting") }, eventually, time.Millisecond)
			time.Sleep(100 * time.Millisecond) // in the middle of whatever it does then
			r.signal(syscall.SIGINT)
			require.Equal(t, 130, r.status(), r.errs.String())
			require.Empty(t, r.out.String())
			require.NoError(t, lock.Release(t.Context(), grant.Token))
			require.Zero(t, lock.execute(t, "job", "true").status, "no waiter is left")
		})
	}
}

// The clocks of three machines differ: two machines start a tick together, and the third
// starts it when the work is done.
func TestRunOncePerTick(t *testing.T) {
	t.Parallel()
	tick := func(t *testing.T, lock runLock, flags ...string) (lines int) {
		file := filepath.Join(t.TempDir(), "ran")
		first := startRun(t, lock, flags, "tick", "sh", "-c", "echo >>"+file)
		second := startRun(t, lock, flags, "tick", "sh", "-c", "echo >>"+file)
		first.status()
		second.status()
		startRun(t, lock, flags, "tick", "sh", "-c", "echo >>"+file).status()
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		return strings.Count(string(text), "\n")
	}
	for name, lock := range runLocks(t) {
		t.Run(name+" with --at-least", func(t *testing.T) {
			t.Parallel()
			require.Equal(t, 1, tick(t, lock, "--at-least", "1h"))
		})
	}
	for name, lock := range runLocks(t) {
		t.Run(name+" without it runs again", func(t *testing.T) {
			t.Parallel()
			require.Greater(t, tick(t, lock), 1)
		})
	}
	t.Run("the next tick runs", func(t *testing.T) {
		t.Parallel()
		lock := runLocks(t)["redis"]
		require.Equal(t, 0, startRun(t, lock, []string{"--at-least", "300ms"}, "tick", "true").status())
		require.Eventually(t, func() bool {
			return lock.execute(t, "tick", "true").status == 0
		}, eventually, time.Millisecond)
	})
}
