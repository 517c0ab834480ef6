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

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/connect"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/internal/cli"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
	"github.com/fencepost/fencepost/token/redistoken"
)

// heldLock is a lock that is held while the program runs.
type heldLock struct {
	*Cmd
	lease    *lock.Lease
	watchdog *watchdog
}

// acquire acquires the lock. The lease's context ends before the lease does, by --grace and
// by how late this process may run, so that the program ends before the lease.
func (c *Cmd) acquire(ctx context.Context, store lockStore, watchdog *watchdog) (*heldLock, error) {
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
	secret := []string{"FENCEPOST_REDIS_URL", "FENCEPOST_POSTGRES_URL", "FENCEPOST_MYSQL_DSN", "FENCEPOST_STORE",
		"FENCEPOST_SIMULATE_REDIS", "FENCEPOST_SIMULATE_POSTGRES"}
	return slices.DeleteFunc(environment, func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains(secret, name)
	})
}

// lockStore is the server that has the lock.
type lockStore struct {
	token.Issuer
	ping  func(ctx context.Context) error
	close func()
}

// shutdown closes the connections, within a second: a server that does not answer must not
// block the end of the process.
func (s lockStore) shutdown() {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		s.close()
	}()
	select {
	case <-closed:
	case <-time.After(time.Second):
	}
}

// open connects to the server, and returns an error if the server does not answer: with a
// wrong address the run must end at once, not after --wait.
func (c *Cmd) open(ctx context.Context) (lockStore, error) {
	ctx, cancel := connect.Within(ctx)
	defer cancel()
	open := c.openRedis
	if c.Postgres != "" {
		open = c.openPostgres
	}
	store, err := open()
	if err != nil {
		return lockStore{}, err
	}
	if err := store.ping(ctx); err != nil {
		store.shutdown()
		return lockStore{}, connect.WithCause(ctx, err)
	}
	return store, nil
}

func (c *Cmd) openRedis() (lockStore, error) {
	client, ping, err := connect.Redis(c.Redis, "--redis")
	if err != nil {
		return lockStore{}, err
	}
	issuer := &redistoken.Issuer{Client: client, Prefix: c.Prefix}
	return lockStore{Issuer: issuer, ping: ping, close: func() { issuer.Close(); client.Close() }}, nil
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

func (c *Cmd) openPostgres() (lockStore, error) {
	config, err := connect.PostgresPool(c.Postgres, "--postgres", application(c.Name))
	if err != nil {
		return lockStore{}, err
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return lockStore{}, fmt.Errorf("postgres cannot be used: %w", err)
	}
	issuer := &pgtoken.Issuer{DB: pool, Schema: c.Schema, Claims: true}
	ping := func(ctx context.Context) error {
		if err := pool.Ping(ctx); err != nil {
			return fmt.Errorf("postgres cannot be used: %w", err)
		}
		return nil
	}
	return lockStore{Issuer: issuer, ping: ping, close: func() { issuer.Close(); pool.Close() }}, nil
}
