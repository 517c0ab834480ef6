package fairness_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
	"github.com/fencepost/fencepost/token/redistoken"
)

// issuers makes them in a process of waiters; leave ends what they have begun.
var issuers = map[string]func(context.Context, order) (iss token.Issuer, leave func(), err error){
	"redistoken": func(_ context.Context, o order) (token.Issuer, func(), error) {
		options, err := redis.ParseURL(o.URL)
		if err != nil {
			return nil, nil, err
		}
		client := redis.NewClient(options)
		iss := &redistoken.Issuer{Client: client, Prefix: o.Space}
		return iss, func() { iss.Close(); client.Close() }, nil
	},
	"pgtoken": func(ctx context.Context, o order) (token.Issuer, func(), error) {
		pool, err := postgresPool(ctx, o)
		if err != nil {
			return nil, nil, err
		}
		iss := &pgtoken.Issuer{DB: pool, Schema: o.Space}
		return iss, func() { iss.Close(); pool.Close() }, nil
	},
	"pgtoken.Advisory": func(ctx context.Context, o order) (token.Issuer, func(), error) {
		pool, err := postgresPool(ctx, o)
		if err != nil {
			return nil, nil, err
		}
		return &pgtoken.Advisory{Pool: pool, Schema: o.Space}, pool.Close, nil
	},
}

// postgresPool has a connection for each waiter, which only advisory locks need.
// They are open before the first turn: that takes longer than one.
func postgresPool(ctx context.Context, o order) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(o.URL)
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(o.Waiters) + 2
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	for range config.MaxConns {
		conn, err := pool.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		defer conn.Release()
	}
	return pool, nil
}

// newOrder is for waiters at a lock of the test's own.
func newOrder(t *testing.T, issuer string) order {
	t.Helper()
	if issuer == "redistoken" {
		_, prefix := testenv.Redis(t)
		return order{Issuer: issuer, URL: testenv.RedisURL(t), Space: prefix}
	}
	_, schema := testenv.Postgres(t)
	return order{Issuer: issuer, URL: testenv.PostgresURL(t), Space: schema}
}
