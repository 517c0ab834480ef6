package lockset

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/sqlguard"
)

const (
	// reach bounds the first answer of a server.
	reach = 10 * time.Second
	// connections is enough for every way to have one, and to evict with another:
	// no way waits for another's.
	connections = 10
)

func (w *worker) connect(ctx context.Context) (err error) {
	if w.redis, err = connectRedis(ctx, w.Redis); err != nil {
		return err
	}
	if w.pool, err = connectPostgres(ctx, w.Postgres, w.Schema); err != nil {
		return err
	}
	w.fence = &sqlguard.Guard{DB: w.pool, Schema: w.Schema, Idle: w.Idle}
	return nil
}

func (w *worker) close() {
	w.pool.Close()
	w.redis.Close()
}

func connectRedis(ctx context.Context, address string) (*redis.Client, error) {
	options, err := redis.ParseURL(address)
	var unparsed *url.Error
	switch {
	case errors.As(err, &unparsed): // which would tell the password
		return nil, errors.New("lockset: redis: not a URL")
	case err != nil:
		return nil, fmt.Errorf("lockset: redis: %w", err)
	}
	// Or a call would outlive its context by the client's own timeouts.
	options.ContextTimeoutEnabled = true
	client := redis.NewClient(options)
	ctx, cancel := context.WithTimeout(ctx, reach)
	defer cancel()
	if err := client.Ping(ctx).Err(); err != nil {
		client.Close()
		return nil, fmt.Errorf("lockset: redis at %s: %w", options.Addr, err)
	}
	return client, nil
}

func connectPostgres(ctx context.Context, address, schema string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, fmt.Errorf("lockset: postgres: %w", err) // pgx leaves the password out
	}
	config.MaxConns = connections
	config.ConnConfig.RuntimeParams["search_path"] = schema
	ctx, cancel := context.WithTimeout(ctx, reach)
	defer cancel()
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("lockset: postgres: %w", err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("lockset: postgres: %w", err)
	}
	return pool, nil
}
