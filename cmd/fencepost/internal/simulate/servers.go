package simulate

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/connect"
	"github.com/fencepost/fencepost/internal/subprocess"
	"github.com/fencepost/fencepost/migrations"
)

// servers are the servers of a run, with functions that remove what the run made on them.
type servers struct {
	setup  setup // for writers, without their name
	issuer string
	name   string // of the store
	store  *store
	undo   []func(context.Context) error
}

// startServers uses the servers that o names and starts embedded ones in place of the
// others. Everything that it makes has the run's name. If it returns an error, it has
// removed everything.
func startServers(ctx context.Context, o Options) (*servers, error) {
	run := strings.ToLower(rand.Text()[:13])
	s := &servers{setup: setup{
		TTL: o.TTL, Pause: cmp.Or(o.Pause, subprocess.BestPause()), Redis: o.Redis, Prefix: "fencepost-simulate-" + run,
		Postgres: o.Postgres, Schema: "fencepost_simulate_" + run,
	}}
	for _, start := range []func(context.Context) error{s.startIssuer, s.startStore, s.fillStore} {
		if err := start(ctx); err != nil {
			return nil, errors.Join(err, s.stop(ctx))
		}
	}
	return s, nil
}

// atEnd registers undo, to be called by stop in reverse order.
func (s *servers) atEnd(undo func(context.Context) error) { s.undo = append(s.undo, undo) }

// stop removes everything, also when ctx has ended.
func (s *servers) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	var errs []error
	for i := len(s.undo) - 1; i >= 0; i-- {
		errs = append(errs, s.undo[i](ctx))
	}
	return errors.Join(errs...)
}

func (s *servers) startIssuer(ctx context.Context) error {
	s.issuer = "redis"
	if s.setup.Redis == "" {
		s.issuer += " (embedded)"
		if err := s.embedRedis(); err != nil {
			return err
		}
	}
	client, err := connectRedis(ctx, s.setup.Redis)
	if err != nil {
		return err
	}
	s.atEnd(func(context.Context) error { return client.Close() })
	s.atEnd(func(ctx context.Context) error { return removeKeys(ctx, client, s.setup.Prefix) })
	return nil
}

// embedRedis starts a server on a port of this machine. ClockTTL makes its keys expire as
// time passes.
func (s *servers) embedRedis() error {
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true)
	if err := server.StartAddr("127.0.0.1:0"); err != nil {
		return fmt.Errorf("embedded redis: %w", err)
	}
	s.atEnd(func(context.Context) error { server.Close(); return nil })
	s.setup.Redis = "redis://" + server.Addr()
	return nil
}

func (s *servers) startStore(ctx context.Context) (err error) {
	s.name = "postgres"
	if s.setup.Postgres == "" {
		s.name = "sqlite (embedded)"
		if err := s.embedSQLite(); err != nil {
			return err
		}
	}
	if s.store, err = openStore(ctx, s.setup); err != nil {
		return err
	}
	s.atEnd(func(context.Context) error { return s.store.close() })
	return nil
}

func (s *servers) embedSQLite() error {
	folder, err := os.MkdirTemp("", "fencepost-simulate-")
	if err != nil {
		return fmt.Errorf("embedded sqlite: %w", err)
	}
	s.atEnd(func(context.Context) error { return os.RemoveAll(folder) })
	s.setup.SQLite = filepath.Join(folder, "simulate.db")
	return nil
}

// fillStore makes the tables of the marks and of the accounts.
func (s *servers) fillStore(ctx context.Context) error {
	set := migrations.Set{Dialect: migrations.SQLite}
	if s.setup.Postgres != "" {
		set = migrations.Set{Schema: s.setup.Schema}
		s.atEnd(func(ctx context.Context) error {
			return s.store.exec(ctx, `DROP SCHEMA IF EXISTS "main" CASCADE`)
		})
	}
	if err := set.Up(ctx, s.store.db); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	if err := s.store.create(ctx); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	return nil
}

// connectRedis returns a client. It returns an error if the server does not answer.
func connectRedis(ctx context.Context, address string) (*redis.Client, error) {
	client, ping, err := connect.Redis(address, "redis")
	if err != nil {
		return nil, err
	}
	ctx, cancel := connect.Within(ctx)
	defer cancel()
	if err := ping(ctx); err != nil {
		client.Close()
		return nil, connect.WithCause(ctx, err)
	}
	return client, nil
}

// removeKeys removes the keys that begin with prefix, which must have no character that is
// special in a pattern.
func removeKeys(ctx context.Context, client *redis.Client, prefix string) error {
	keys := client.Scan(ctx, 0, prefix+"*", 1000).Iterator()
	for keys.Next(ctx) {
		if err := client.Unlink(ctx, keys.Val()).Err(); err != nil {
			return fmt.Errorf("simulate: remove the keys %s*: %w", prefix, err)
		}
	}
	if err := keys.Err(); err != nil {
		return fmt.Errorf("simulate: remove the keys %s*: %w", prefix, err)
	}
	return nil
}
