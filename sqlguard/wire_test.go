package sqlguard_test

import (
	"context"
	"math"
	"net"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
)

// wire counts what a pool does on the network.
type wire struct {
	dials   atomic.Int64
	packets atomic.Int64 // writes; pgx makes one for each round trip
}

type counted struct {
	net.Conn
	packets *atomic.Int64
}

func (c *counted) Write(b []byte) (int, error) {
	c.packets.Add(1)
	return c.Conn.Write(b)
}

// wired is a pool of at most size connections whose wire is counted.
func wired(t testing.TB, size int32, change ...func(*pgxpool.Config)) (*pgxpool.Pool, *wire) {
	t.Helper()
	config, err := pgxpool.ParseConfig(testenv.PostgresURL(t))
	require.NoError(t, err)
	w := &wire{}
	config.MaxConns = size
	config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		w.dials.Add(1)
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return &counted{conn, &w.packets}, err
	}
	for _, c := range change {
		c(config)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool, w
}

// during is how many packets f takes once everything is prepared: the least of
// three times, since a busy machine can make any transaction a slow one, and
// those ask whether their session is still there.
func (w *wire) during(f func()) int64 {
	f()
	least := int64(math.MaxInt64)
	for range 3 {
		before := w.packets.Load()
		f()
		least = min(least, w.packets.Load()-before)
	}
	return least
}

// modes are all that pgx has.
var modes = []pgx.QueryExecMode{
	pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
	pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
}

func inMode(mode pgx.QueryExecMode) func(*pgxpool.Config) {
	return func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode }
}

// withSetting has every connection begin with a setting of its own.
func withSetting(name, value string) func(*pgxpool.Config) {
	return func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams[name] = value }
}
