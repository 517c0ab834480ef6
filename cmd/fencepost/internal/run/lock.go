package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/connect"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/internal/cli"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
)

// heldLock is a lock that is held while the program runs.
type heldLock struct {
	*Cmd
	lease    *lock.Lease
	watchdog *watchdog
}

// acquire acquires the lock. The lease's context ends before the lease does, by --grace and
// by how late this process may run, so that the program ends before the lease.
func (c *Cmd) acquire(ctx context.Context, store *connect.LockStore, watchdog *watchdog) (*heldLock, error) {
	held, late := &heldLock{Cmd: c, watchdog: watchdog}, max(c.TTL/10, 10*time.Millisecond)
	host, _ := os.Hostname()
	locker := &lock.Locker{
		Issuer: store.Issuer, Name: cmp.Or(host, "fencepost"),
		TTL: c.TTL, WaitTimeout: cmp.Or(c.Wait, connect.Timeout), NoWait: c.Wait == 0, HoldAtLeast: c.AtLeast, SafetyMargin: c.Grace + late,
		DangerouslyWithoutClaim: true,
	}
	locker.Hooks.Renewed = func(_ context.Context, _ token.Token, left time.Duration) {
		held.watchdog.extend(left + c.Grace + late/2)
	}
	var err error
	if held.lease, err = locker.Acquire(ctx, c.Name); err != nil {
		return nil, err
	}
	// After a wait, the first grant may be shorter than the ttl. A renewal extends it, and
	// returns its end.
	bound, cancel := context.WithTimeout(held.lease.Context(), connect.Timeout)
	defer cancel()
	until, err := store.Renew(bound, held.lease.Token(), c.TTL)
	if err != nil {
		return nil, errors.Join(err, held.lease.Release(ctx))
	}
	held.watchdog.extend(time.Until(until) - late/2)
	return held, nil
}

// release releases the lock. After a loss it does nothing: another holder has the lock or
// soon will, or the server does not answer.
func (h *heldLock) release(std cli.Streams) {
	if errors.Is(context.Cause(h.lease.Context()), token.ErrLost) {
		return
	}
	if err := h.lease.Release(context.Background()); err != nil {
		h.warnf(std, "%v", err)
		return
	}
	h.verbosef(std, "given back")
}

// environment returns the program's environment.
func (h *heldLock) environment() ([]string, error) {
	tok := h.lease.Token()
	field, err := httpguard.Format(tok)
	return append(withoutURLs(os.Environ()),
		"FENCING_TOKEN="+field,
		"FENCING_RESOURCE="+tok.Resource,
		fmt.Sprintf("FENCING_NUMBER=%d", tok.Number),
		"FENCING_HOLDER="+tok.Holder), err
}

// withoutURLs returns the environment without the variables that may have the password of
// a server. The program and the watchdog do not use them.
func withoutURLs(environment []string) []string {
	secret := []string{"FENCEPOST_REDIS_URL", "FENCEPOST_POSTGRES_URL", "FENCEPOST_ETCD_URL", "FENCEPOST_MYSQL_DSN", "FENCEPOST_STORE", "FENCEPOST_LOCKS_BREAK_GUARD",
		"FENCEPOST_SERVE_GUARD", "FENCEPOST_BEARER", "FENCEPOST_SIMULATE_REDIS", "FENCEPOST_SIMULATE_ETCD", "FENCEPOST_SIMULATE_POSTGRES"}
	return slices.DeleteFunc(environment, func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains(secret, name)
	})
}

// application returns what pg_stat_activity shows for the sessions of the lock called name: at
// most the 63 bytes that the server keeps.
func application(name string) string {
	name = "fencepost run " + name
	end := min(len(name), 63)
	for end < len(name) && !utf8.RuneStart(name[end]) {
		end--
	}
	return name[:end]
}
