package simulate

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/alicebob/miniredis/v2"

	"github.com/fencepost/fencepost/migrations"
)

// servers are what a run works on, and what it must leave as it was.
type servers struct {
	setup  setup // for writers, but for their name
	issuer string
	name   string // of the store
	store  *store
	undo   []func(context.Context) error
}

// startServers takes the servers that o names and embeds the others. The name
// of the run is in the name of everything it makes. Where the error is not nil
// everything is undone.
func startServers(ctx context.Context, o Options) (*servers, error) {
	run := strings.ToLower(rand.Text()[:13])
	s := &servers{setup: setup{
		TTL: o.TTL, Pause: o.Pause.orBest(), Redis: o.Redis, Prefix: "fencepost-simulate-" + run,
		Postgres: o.Postgres, Schema: "fencepost_simulate_" + run,
	}}
	for _, start := range []func(context.Context) error{s.startIssuer, s.startStore, s.fillStore} {
		if err := start(ctx); err != nil {
			return nil, errors.Join(err, s.stop(ctx))
		}
	}
	return s, nil
}

// later notes what is to be undone, last things first.
func (s *servers) later(undo func(context.Context) error) { s.undo = append(s.undo, undo) }

// stop undoes everything, also when ctx has ended.
func (s *servers) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanup)
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
	s.later(func(context.Context) error { return client.Close() })
	s.later(func(ctx context.Context) error { return removeKeys(ctx, client, s.setup.Prefix) })
	return nil
}

// embedRedis starts a server on a port of this machine. Its keys expire by the
// clock, which they do not by default.
func (s *servers) embedRedis() error {
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true)
	if err := server.StartAddr("127.0.0.1:0"); err != nil {
		return fmt.Errorf("embedded redis: %w", err)
	}
	s.later(func(context.Context) error { server.Close(); return nil })
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
	s.later(func(context.Context) error { return s.store.close() })
	return nil
}

func (s *servers) embedSQLite() error {
	folder, err := os.MkdirTemp("", "fencepost-simulate-")
	if err != nil {
		return fmt.Errorf("embedded sqlite: %w", err)
	}
	s.later(func(context.Context) error { return os.RemoveAll(folder) })
	s.setup.SQLite = filepath.Join(folder, "simulate.db")
	return nil
}

// fillStore makes the marks and the accounts.
func (s *servers) fillStore(ctx context.Context) error {
	set := migrations.Set{Dialect: migrations.SQLite}
	if s.setup.Postgres != "" {
		set = migrations.Set{Schema: s.setup.Schema}
		s.later(func(ctx context.Context) error {
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
