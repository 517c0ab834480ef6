package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
	"github.com/fencepost/fencepost/token/redistoken"
)

// runStore is where the lock is kept.
type runStore struct {
	token.Issuer
	ping  func(ctx context.Context) error
	close func()
}

// leave does not wait for a server that does not answer: the process ends.
func (s runStore) leave() {
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

// open asks the server whether it is there: who waits for a lock should not
// wait for a wrong address.
func (c *runCmd) open(ctx context.Context) (runStore, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, reach, errors.New("no answer within "+reach.String()))
	defer cancel()
	open := c.openRedis
	if c.Postgres != "" {
		open = c.openPostgres
	}
	store, err := open()
	if err != nil {
		return runStore{}, err
	}
	if err := store.ping(ctx); err != nil {
		store.leave()
		return runStore{}, becauseOf(ctx, err)
	}
	return store, nil
}

func (c *runCmd) openRedis() (runStore, error) {
	options, err := redis.ParseURL(c.Redis)
	if err != nil {
		return runStore{}, unreadable("--redis: not a redis:// URL")
	}
	options.ContextTimeoutEnabled = true
	client := redis.NewClient(options)
	issuer := &redistoken.Issuer{Client: client, Prefix: c.Prefix}
	ping := func(ctx context.Context) error {
		if err := client.Ping(ctx).Err(); err != nil {
			return fmt.Errorf("redis at %s cannot be used: %w", options.Addr, err)
		}
		return nil
	}
	return runStore{Issuer: issuer, ping: ping, close: func() { issuer.Close(); client.Close() }}, nil
}

func (c *runCmd) openPostgres() (runStore, error) {
	config, err := pgxpool.ParseConfig(c.Postgres)
	if err != nil {
		return runStore{}, unreadable("--postgres: neither a postgres:// URL nor keyword=value pairs")
	}
	introduce(config.ConnConfig, "fencepost run")
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return runStore{}, fmt.Errorf("postgres cannot be used: %w", err)
	}
	issuer := &pgtoken.Issuer{DB: pool, Schema: c.Schema, Claims: true}
	ping := func(ctx context.Context) error {
		if err := pool.Ping(ctx); err != nil {
			return fmt.Errorf("postgres cannot be used: %w", err)
		}
		return nil
	}
	return runStore{Issuer: issuer, ping: ping, close: func() { issuer.Close(); pool.Close() }}, nil
}
