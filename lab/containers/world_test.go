package main

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/network"

	"github.com/fencepost/fencepost/lab/containers/wire"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token/redistoken"
)

const (
	resource     = "account/42"
	redisName    = "redis"
	postgresName = "postgres"
)

// world is a Redis and a PostgreSQL, each on an isolated network of its own, and the
// writer B, which is this process.
type world struct {
	redis, postgres       *server
	redisNet, postgresNet *testcontainers.DockerNetwork
	pool                  *pgxpool.Pool
	fence                 *sqlguard.Guard
	b                     *lock.Locker
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		redis: redis(""), postgres: postgres("", "fsync=off"),
		redisNet: isolated(t), postgresNet: isolated(t),
	}
	for s, name := range map[*server]string{w.redis: redisName, w.postgres: postgresName} {
		net := map[string]*testcontainers.DockerNetwork{redisName: w.redisNet, postgresName: w.postgresNet}[name]
		s.options = append(s.options, network.WithBridgeNetwork(), network.WithNetwork([]string{name}, net))
	}
	started, err := start(t.Context(), servers{w.redis, w.postgres})
	t.Cleanup(func() { require.NoError(t, started.remove()) })
	require.NoError(t, err)
	w.open(t)
	return w
}

func (w *world) open(t *testing.T) {
	t.Helper()
	options, err := goredis.ParseURL(w.redis.address)
	require.NoError(t, err)
	client := goredis.NewClient(options)
	t.Cleanup(func() { client.Close() })
	w.pool, err = pgxpool.New(t.Context(), w.postgres.address)
	require.NoError(t, err)
	t.Cleanup(w.pool.Close)
	db := stdlib.OpenDBFromPool(w.pool)
	defer db.Close()
	require.NoError(t, migrations.Set{}.Up(t.Context(), db))
	_, err = w.pool.Exec(t.Context(), "CREATE TABLE accounts (resource text PRIMARY KEY, balance int NOT NULL)")
	require.NoError(t, err)
	_, err = w.pool.Exec(t.Context(), "INSERT INTO accounts VALUES ($1, 0)", resource)
	require.NoError(t, err)
	w.fence = &sqlguard.Guard{DB: w.pool, IdleTimeout: time.Second}
	w.b = &lock.Locker{Issuer: &redistoken.Issuer{Client: client}, Name: "b", TTL: time.Minute, Claim: w.fence.Admit}
}

func (w *world) balance(t *testing.T) (balance int) {
	t.Helper()
	require.NoError(t, w.pool.QueryRow(t.Context(), "SELECT balance FROM accounts WHERE resource = $1", resource).Scan(&balance))
	return balance
}

// deposit is B's turn: it waits for the lock, reads, and adds 10.
func (w *world) deposit(t *testing.T) {
	t.Helper()
	require.NoError(t, w.b.Hold(t.Context(), resource, func(ctx context.Context) error {
		_, err := w.fence.On(resource).Exec(ctx, "UPDATE accounts SET balance = $2 WHERE resource = $1", resource, w.balance(t)+10)
		return err
	}))
}

// twins are the expected outcome of A's late write of 50 less than it has read, and the
// expected change of the balance after B has added 10.
var twins = map[string]struct {
	observe bool
	outcome string
	adds    int
}{
	"it is refused": {false, wire.Stale, 10},
	"report-only, it overwrites its successor": {true, "", -50},
}
