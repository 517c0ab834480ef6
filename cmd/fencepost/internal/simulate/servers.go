package simulate

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/connect"
	"github.com/fencepost/fencepost/migrations"
)

// setup has the names and servers of a run. Its URLs are no arguments of the writers: every
// user of the machine can read those.
type setup struct {
	TTL      time.Duration
	Redis    string // URL
	Etcd     string // URLs, or "" for Redis
	Prefix   string // of all keys
	Postgres string // URL, or "" for SQLite
	Schema   string // of all tables in PostgreSQL
	SQLite   string // path of the file
}

// servers are the servers of a run, with functions that remove what the run made on them.
type servers struct {
	setup
	issuer string
	name   string // of the store
	store  *store
	undo   []func(context.Context) error
}

// startServers uses the servers that c names and starts embedded ones in place of the
// others. Everything that it makes has the run's name. If it returns an error, it has
// removed everything.
func startServers(ctx context.Context, c *Cmd) (*servers, error) {
	run := strings.ToLower(rand.Text()[:13])
	s := &servers{setup: setup{
		TTL: c.TTL, Redis: c.Redis, Etcd: c.Etcd, Prefix: "fencepost-simulate-" + run, Postgres: c.Postgres, Schema: "fencepost_simulate_" + run,
	}}
	for _, start := range []func(context.Context) error{s.startIssuer, s.startStore} {
		if err := start(ctx); err != nil {
			return nil, errors.Join(err, s.stop(ctx))
		}
	}
	return s, nil
}

// conf returns the setup for the writers.
func (s *servers) conf() string {
	text, _ := json.Marshal(s.setup) // strings and a number
	return string(text)
}

// cleanupTimeout bounds the removal at the end of a run.
const cleanupTimeout = 2 * time.Minute

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
	switch {
	case s.Etcd != "":
		s.issuer = "etcd"
	case s.Redis != "":
		s.issuer = "redis"
	default:
		server := miniredis.NewMiniRedis()
		server.ClockTTL(true) // its keys expire as time passes
		if err := server.StartAddr("127.0.0.1:0"); err != nil {
			return fmt.Errorf("embedded redis: %w", err)
		}
		s.atEnd(func(context.Context) error { server.Close(); return nil })
		s.issuer, s.Redis = "redis (embedded)", "redis://"+server.Addr()
	}
	locks, err := s.openLocks(ctx)
	if err != nil {
		return err
	}
	locks.Shutdown()
	s.atEnd(s.removeKeys)
	return nil
}

// openLocks connects to the server of the lock, and returns an error if it does not answer.
func (s *setup) openLocks(ctx context.Context) (*connect.LockStore, error) {
	return (&connect.Locks{Redis: s.Redis, Etcd: s.Etcd}).Open(ctx, "", s.Prefix)
}

// startStore makes the tables of the marks and of the accounts too.
func (s *servers) startStore(ctx context.Context) (err error) {
	set := migrations.Set{Schema: s.Schema}
	if s.name = "postgres"; s.Postgres == "" {
		folder, err := os.MkdirTemp("", "fencepost-simulate-")
		if err != nil {
			return fmt.Errorf("embedded sqlite: %w", err)
		}
		s.atEnd(func(context.Context) error { return os.RemoveAll(folder) })
		s.name, s.SQLite, set = "sqlite (embedded)", filepath.Join(folder, "simulate.db"), migrations.Set{Dialect: migrations.SQLite}
	}
	if s.store, err = openStore(ctx, s.setup); err != nil {
		return err
	}
	s.atEnd(func(context.Context) error { return s.store.db.Close() })
	if s.Postgres != "" {
		s.atEnd(func(ctx context.Context) error { return s.store.exec(ctx, `DROP SCHEMA IF EXISTS "main" CASCADE`) })
	}
	if err = set.Up(ctx, s.store.db); err == nil {
		err = s.store.exec(ctx, createSQL)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	return nil
}

// removeKeys removes the keys of the run, whose prefix has no character that is special in a
// pattern.
func (s *servers) removeKeys(ctx context.Context) (err error) {
	if s.Etcd != "" {
		etcd, _ := connect.NewEtcd(s.Etcd, "") // it was parsed before
		defer etcd.Client.CloseIdleConnections()
		err = etcd.SendAny(ctx, "/v3/kv/deleterange", map[string]any{"key": []byte(s.Prefix + "/"), "range_end": []byte(s.Prefix + "0")}, &struct{}{})
	} else {
		client, _, _ := connect.Redis(s.Redis, "redis") // as above
		defer client.Close()
		keys := client.Scan(ctx, 0, s.Prefix+"*", 1000).Iterator()
		for err == nil && keys.Next(ctx) {
			err = client.Unlink(ctx, keys.Val()).Err()
		}
		err = errors.Join(err, keys.Err())
	}
	if err != nil {
		return fmt.Errorf("remove the keys %s*: %w", s.Prefix, err)
	}
	return nil
}
