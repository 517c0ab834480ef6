package pgadvisory_test

import (
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/contrib/pgadvisory"
	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/token"
)

// tryLock precedes the SQL of advisoryKey. It does not use this module's functions.
const tryLock = "SELECT pg_try_advisory_lock((k >> 32)::integer, k::bit(32)::integer) FROM "

func advisoryKey(schema string) string { return pgtest.In(schema, "advisory_key") + "($1) k" }

// issuer returns an issuer that is closed before its pool.
func issuer(t *testing.T, pool *pgxpool.Pool, schema string) *pgadvisory.Issuer {
	iss := &pgadvisory.Issuer{Pool: pool, Schema: schema}
	t.Cleanup(func() { require.NoError(t, iss.Close()) })
	return iss
}

// enqueue returns when holder is in the queue for resource.
func enqueue(t *testing.T, iss *pgadvisory.Issuer, holder string, ttl time.Duration) <-chan pgtest.Answer {
	t.Helper()
	before := len(processes(t, iss, false))
	answers := pgtest.Go(func() (token.Grant, error) { return iss.Wait(t.Context(), resource, holder, ttl) })
	pgtest.Await(t, func() bool { return len(processes(t, iss, false)) == before+1 })
	return answers
}

// processes returns the server processes that have the lock of resource, or that wait for
// it.
func processes(t *testing.T, iss *pgadvisory.Issuer, granted bool) []int32 {
	t.Helper()
	rows, err := iss.Pool.Query(t.Context(), "SELECT l.pid FROM pg_locks l, "+advisoryKey(iss.Schema)+
		" WHERE l.locktype = 'advisory' AND l.objsubid = 2 AND l.granted = $2"+
		" AND l.classid::bigint::bit(32) || l.objid::bigint::bit(32) = k::bit(64)", resource, granted)
	require.NoError(t, err)
	all, err := pgx.CollectRows(rows, pgx.RowTo[int32])
	require.NoError(t, err)
	return all
}

const (
	resource = pgtest.Resource
	long     = pgtest.Long
)

// awaited repeats Acquire until it is granted.
func awaited(t *testing.T, iss token.Issuer, holder string) (tok token.Token) {
	t.Helper()
	pgtest.Await(t, func() bool {
		grant, err := iss.Acquire(t.Context(), resource, holder, long)
		tok = grant.Token
		return err == nil
	})
	return tok
}

// durable makes each commit wait for the disk.
func durable(config *pgxpool.Config) { config.ConnConfig.RuntimeParams["synchronous_commit"] = "on" }

// hasty turns off the wait for the disk at commit, for transactions that do not set it.
func hasty(config *pgxpool.Config) { config.ConnConfig.RuntimeParams["synchronous_commit"] = "off" }

// wires are the connections of one pool, over a network that a test can break.
type wires struct {
	mu      sync.Mutex
	free    sync.Cond // signalled when held changes
	held    bool      // writes block
	blocked int       // writes that are blocked
	gone    bool      // writes and closes do not reach the server, and reads fail
	dead    bool      // the connections end, and there will be no more
	conns   []net.Conn
}

// wired returns a pool with such a network. The network works again at the end of the
// test.
func wired(t *testing.T) (*wires, *pgxpool.Pool) {
	t.Helper()
	w := &wires{}
	w.free.L = &w.mu
	pool := pgtest.Connect(t, func(config *pgxpool.Config) {
		pgtest.Wrap(config, w.add)
	})
	t.Cleanup(func() {
		w.hold(false)
		w.kill()
	})
	return w, pool
}

func (w *wires) add(conn net.Conn) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead {
		return nil, errors.Join(errors.New("the process is dead"), conn.Close())
	}
	w.conns = append(w.conns, conn)
	return wire{conn, w}, nil
}

func (w *wires) hold(held bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = held
	w.free.Broadcast()
}

// awaitBlocked returns when n writes are blocked.
func (w *wires) awaitBlocked(t *testing.T, n int) {
	t.Helper()
	pgtest.Await(t, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.blocked == n
	})
}

// vanish disconnects the server from now on: it receives nothing more, not even a close.
func (w *wires) vanish() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone = true
}

// kill closes the sockets, as the end of a process does.
func (w *wires) kill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, conn := range w.conns {
		conn.Close() // an error means only that it was closed
	}
	w.conns, w.dead = nil, true
}

type wire struct {
	net.Conn
	*wires
}

func (w wire) Write(b []byte) (int, error) {
	w.mu.Lock()
	w.blocked++
	for w.held {
		w.free.Wait()
	}
	w.blocked--
	gone := w.gone
	w.mu.Unlock()
	if gone {
		return len(b), nil
	}
	return w.Conn.Write(b)
}

func (w wire) vanished() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gone
}

func (w wire) Read(b []byte) (int, error) {
	if w.vanished() { // no reply would arrive, and the end of a session waits for one
		return 0, errVanished
	}
	return w.Conn.Read(b)
}

func (w wire) Close() error {
	if w.vanished() {
		return nil
	}
	return w.Conn.Close()
}

var errVanished = errors.New("the network is gone")
