package failures_test

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/token"
)

// system is an issuer's servers, which can fail.
type system struct {
	// issuer makes one with connections of its own, as another process has it.
	issuer func(t *testing.T) token.Issuer
	// depart is where what the servers do from now on begins to be forgotten:
	// a snapshot is taken, a replica is cut off. It may be nil.
	depart func()
	// fail returns when the servers are back.
	fail func()
}

// place is where the clients of servers that take each other's place connect to,
// as Sentinel or a name server tells them.
type place struct{ addr atomic.Pointer[string] }

func (p *place) move(addr string) { p.addr.Store(&addr) }

func (p *place) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, network, *p.addr.Load())
}

// manyErrors keeps go-redis from waiting a second before it tries to connect
// again: it does when so many tries have failed as the pool has places.
const manyErrors = 100_000

func (p *place) redis(t *testing.T) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: *p.addr.Load(), Dialer: p.dial, PoolSize: manyErrors})
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}

func (p *place) postgres(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	config.ConnConfig.DialFunc = p.dial
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// closed is iss, which ends at the end of the test, if it has to be ended.
func closed(t *testing.T, iss token.Issuer) token.Issuer {
	t.Helper()
	if c, ok := iss.(io.Closer); ok {
		t.Cleanup(func() { require.NoError(t, c.Close()) })
	}
	return iss
}
