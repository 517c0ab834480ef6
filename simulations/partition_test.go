package simulations_test

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/internal/netfault"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
)

// bank is account 42 with a balance of 100. A writes it through a proxy, on one
// connection, and all other writers directly.
type bank struct {
	*netfault.Proxy
	server        *pgxpool.Pool
	a, direct     *sqlguard.Guard
	selects, sets string
	session       string                   // the server's id of A's session
	line          atomic.Pointer[net.Conn] // A's connection
	commits       func()                   // runs when A is about to send COMMIT
}

func newBank(t *testing.T) *bank {
	t.Helper()
	server, schema := testenv.Postgres(t)
	table := pgx.Identifier{schema, "accounts"}.Sanitize()
	_, err := server.Exec(t.Context(), "CREATE TABLE "+table+" (balance int NOT NULL); INSERT INTO "+table+" VALUES (100)")
	require.NoError(t, err)
	b := &bank{
		server: server, direct: &sqlguard.Guard{DB: server, Schema: schema},
		selects: "SELECT balance FROM " + table, sets: "UPDATE " + table + " SET balance = $1",
		session: "A of " + schema, commits: func() {},
	}
	config := server.Config().Copy()
	config.MaxConns, config.ConnConfig.Tracer, config.ConnConfig.DefaultQueryExecMode = 1, b, pgx.QueryExecModeExec // each batch is one packet
	config.ConnConfig.RuntimeParams["application_name"] = b.session
	config.ConnConfig.DialFunc = b.dial
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	b.Proxy = startProxy(t, net.JoinHostPort(config.ConnConfig.Host, strconv.Itoa(int(config.ConnConfig.Port))))
	b.a = &sqlguard.Guard{DB: pool, Schema: schema}
	return b
}

// dial makes A's only connection. There is no second one for the request by which pgx
// cancels a statement on the first.
func (b *bank) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	line, err := new(net.Dialer).DialContext(ctx, network, b.Addr())
	if err != nil {
		return nil, err
	}
	if !b.line.CompareAndSwap(nil, &line) {
		line.Close()
		return nil, net.ErrClosed
	}
	return line, nil
}

// hangUp acts like A's kernel when A is killed: it sends a FIN after the data.
func (b *bank) hangUp(t *testing.T) {
	t.Helper()
	require.NoError(t, (*b.line.Load()).Close())
}

func (b *bank) balance(t *testing.T) (balance int) {
	t.Helper()
	require.NoError(t, b.server.QueryRow(t.Context(), b.selects).Scan(&balance))
	return balance
}

var _ interface {
	pgx.QueryTracer
	pgx.BatchTracer
} = (*bank)(nil)

// TraceBatchStart recognises the check of an admission before its COMMIT.
func (b *bank) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	if all := data.Batch.QueuedQueries; len(all) == 2 && all[1].SQL == "commit" {
		b.commits()
	}
	return ctx
}

func (b *bank) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (b *bank) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

func (b *bank) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if data.SQL == "commit" {
		b.commits()
	}
	return ctx
}

func (b *bank) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// gone waits until the server has executed all that A has sent, and has seen A disconnect.
func (b *bank) gone(t *testing.T) {
	t.Helper()
	b.awaitNone(t, "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1")
}

// settled waits until the server has executed all that A has sent, and has no open
// transaction of A's.
func (b *bank) settled(t *testing.T) {
	t.Helper()
	b.awaitNone(t, "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND state IS DISTINCT FROM 'idle'")
}

func (b *bank) awaitNone(t *testing.T, counts string) {
	t.Helper()
	require.Eventually(t, func() bool {
		var sessions int
		err := b.server.QueryRow(t.Context(), counts, b.session).Scan(&sessions)
		return err == nil && sessions == 0
	}, testTimeout, 5*time.Millisecond)
}

// testTimeout ends a test that hangs. No test depends on its length.
const testTimeout = 2 * time.Minute

func startProxy(t *testing.T, target string) *netfault.Proxy {
	t.Helper()
	p, err := netfault.Start(target)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

// holds waits until the proxy holds data back.
func holds(t *testing.T, p *netfault.Proxy, way netfault.Way) {
	t.Helper()
	require.Eventually(t, func() bool { return p.Held(way) > 0 }, testTimeout, time.Millisecond)
}

// holdsUntil is holds, and reports false if ctx ends before.
func holdsUntil(ctx context.Context, p *netfault.Proxy) bool {
	for p.Held(netfault.Both) == 0 {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(time.Millisecond):
		}
	}
	return true
}

// delivered waits until the proxy holds nothing back.
func delivered(t *testing.T, p *netfault.Proxy) {
	t.Helper()
	require.Eventually(t, func() bool { return p.Held(netfault.Both) == 0 }, testTimeout, time.Millisecond)
}

// locks are the same locks in Redis. A writer A reaches them through a proxy, and all
// other writers directly.
type locks struct {
	*netfault.Proxy
	server    *redis.Client
	prefix    string
	a, direct *redistoken.Issuer
}

func newLocks(t *testing.T) *locks {
	t.Helper()
	server, prefix := testenv.Redis(t)
	options := *server.Options()
	l := &locks{server: server, prefix: prefix, direct: &redistoken.Issuer{Client: server, Prefix: prefix}}
	options.Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, l.Addr())
	}
	options.MaxRetries = -1
	client := redis.NewClient(&options)
	t.Cleanup(func() { client.Close() })
	l.Proxy = startProxy(t, server.Options().Addr)
	l.a = &redistoken.Issuer{Client: client, Prefix: prefix}
	grant, err := l.a.Acquire(t.Context(), resource, "earlier", time.Hour) // the line is up, the script is known
	require.NoError(t, err)
	require.NoError(t, l.a.Release(t.Context(), grant.Token))
	return l
}

// value returns the value of the only key with the prefix, or "".
func (l *locks) value(t *testing.T, name string) string {
	t.Helper()
	keys, err := l.server.Keys(t.Context(), l.prefix+":*:"+name+"*").Result()
	require.NoError(t, err)
	if len(keys) == 0 {
		return ""
	}
	require.Len(t, keys, 1)
	return l.server.Get(t.Context(), keys[0]).Val()
}

// expires makes the lease of tok, which is long, expire.
func (l *locks) expires(t *testing.T, tok token.Token) {
	t.Helper()
	_, err := l.direct.Renew(t.Context(), tok, time.Millisecond)
	require.NoError(t, err)
}

func (l *locks) counter(t *testing.T) int64 {
	t.Helper()
	number, err := strconv.ParseInt(l.value(t, "counter"), 10, 64)
	require.NoError(t, err)
	return number
}

// shortLease calls use with a lease that expires by itself, at half of its TTL. If the
// machine was too slow, and use returns false, it calls use again with twice the TTL.
func shortLease(t *testing.T, ttl time.Duration, use func(a *lock.Locker) (done bool)) {
	t.Helper()
	for ; !use(&lock.Locker{Name: "a", TTL: ttl, SafetyMargin: ttl / 2, DangerouslyWithoutClaim: true}); ttl *= 2 {
		require.Less(t, ttl, testTimeout, "no machine is that slow")
	}
}

// acquireShort returns a lease of a's, or nil if the machine was too slow.
func acquireShort(ctx context.Context, t *testing.T, a *lock.Locker) *lock.Lease {
	t.Helper()
	lease, err := a.Acquire(ctx, resource)
	if !errors.Is(err, token.ErrLost) {
		require.NoError(t, err)
	}
	return lease
}

// lostInTime waits until A's lease is lost, and reports whether A's lock still exists
// then. If it returns false the caller begins again: the machine is slow, or the lock
// ended before A's lease did.
func (l *locks) lostInTime(t *testing.T, lease *lock.Lease) bool {
	t.Helper()
	<-lease.Context().Done()
	require.ErrorIs(t, context.Cause(lease.Context()), token.ErrLost)
	if strings.Contains(l.value(t, "lock:"), "a:") { // hazard L1
		l.expires(t, lease.Token())
		return true
	}
	l.Heal(netfault.Both)
	require.ErrorIs(t, lease.Release(context.WithoutCancel(t.Context())), token.ErrLost)
	return false
}

// A holds the lock and is cut off from Redis, and only from Redis.
func TestAHolderThatIsCutOffFromItsLock(t *testing.T) {
	t.Parallel()
	t.Run("loses it before another has it, and its late write is refused", func(t *testing.T) {
		t.Parallel()
		b := newBank(t)
		err := cutOff(t.Context(), t, b)
		require.ErrorIs(t, err, guard.ErrStale)
		require.Equal(t, 110, b.balance(t), "the successor's value stands")
	})
	t.Run("report-only, its late write overwrites the successor", func(t *testing.T) {
		t.Parallel()
		b := newBank(t)
		require.NoError(t, cutOff(failpoint.Unguarded(t.Context()), t, b))
		require.Equal(t, 50, b.balance(t))
	})
}

// cutOff returns the result of A's late write of 50, after B has written.
func cutOff(ctx context.Context, t *testing.T, b *bank) error {
	t.Helper()
	l := newLocks(t)
	seen := b.balance(t)
	var lease *lock.Lease
	shortLease(t, 4*time.Second, func(a *lock.Locker) bool {
		a.Issuer, a.Claim, a.DangerouslyWithoutClaim = l.a, b.a.Admit, false
		if lease = acquireShort(ctx, t, a); lease == nil {
			return false
		}
		l.Blackhole(netfault.Both)
		if !holdsUntil(lease.Context(), l.Proxy) { // a renewal
			l.Heal(netfault.Both)
			_ = lease.Release(ctx)
			return false
		}
		return l.lostInTime(t, lease)
	})

	next := &lock.Locker{Issuer: l.direct, Name: "b", TTL: time.Hour, Claim: b.direct.Admit}
	err := next.Hold(t.Context(), resource, func(ctx context.Context) error {
		l.Heal(netfault.Both)
		delivered(t, l.Proxy)
		require.Contains(t, l.value(t, "lock:"), "b:", "A's renewal, which came late, took the lock back") // hazard L4 R7
		_, err := b.direct.On(resource).Exec(ctx, b.sets, b.balance(t)+10)
		return err
	})
	require.NoError(t, err)

	// A has not looked at its context.
	_, err = b.a.On(resource).Exec(token.NewContext(ctx, lease.Token()), b.sets, seen-50)
	require.ErrorIs(t, lease.Release(t.Context()), token.ErrLost)
	return err
}
