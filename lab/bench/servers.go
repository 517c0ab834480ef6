package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/internal/test/slowlink"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/migrations"
)

// closers are called in reverse order.
type closers []func() error

func (c *closers) later(closer func() error) { *c = append(*c, closer) }

func (c *closers) close() (err error) {
	for _, closer := range slices.Backward(*c) {
		err = errors.Join(err, closer())
	}
	return err
}

// env has the servers and relays. They are started when they are first needed.
type env struct {
	closers
	quick   bool
	servers map[serverKind]*server
	relays  map[string]string // by the address of the server
}

func newEnv(quick bool) *env {
	return &env{quick: quick, servers: map[serverKind]*server{}, relays: map[string]string{}}
}

type serverKind string

const (
	noServer       serverKind = ""
	redisServer    serverKind = "redis"
	postgresServer serverKind = "postgresql"
)

// server is a started server. cpu returns the CPU time that it has used so far.
type server struct {
	url string
	cpu func() time.Duration
}

func (e *env) started(ctx context.Context, kind serverKind) *server {
	s := e.servers[kind]
	switch {
	case s != nil:
	case kind == redisServer:
		s = e.startRedis(ctx)
	case kind == postgresServer:
		s = e.startPostgres(ctx)
	default:
		s = &server{cpu: func() time.Duration { return 0 }}
	}
	e.servers[kind] = s
	return s
}

// startRedis starts a Redis that stores nothing on disk.
func (e *env) startRedis(ctx context.Context) *server {
	s := must(testenv.StartRedis())
	e.later(s.Stop)
	client := redis.NewClient(must(redis.ParseURL(s.URL)))
	defer client.Close()
	info := must(client.InfoMap(ctx, "server").Result())["Server"]
	process := must(strconv.Atoi(info["process_id"]))
	return &server{s.URL, func() time.Duration { return cpuOf(process) }}
}

//go:embed tables.sql
var tablesSQL string

// startPostgres starts a server that waits for its disk, and makes the marks and the
// tables. Checkpoints and vacuums are postponed, since they would disturb single blocks.
func (e *env) startPostgres(ctx context.Context) *server {
	s := must(testenv.StartPostgres("fsync=on", "synchronous_commit=on", "max_wal_size=16GB",
		"checkpoint_timeout=1h", "max_connections=600", "shared_buffers=512MB", "autovacuum=off"))
	e.later(s.Stop)
	pool := must(pgxpool.New(ctx, s.URL))
	defer pool.Close()
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	check(migrations.Set{}.Up(ctx, db))
	must(pool.Exec(ctx, tablesSQL))
	var postmaster string
	check(pool.QueryRow(ctx, "SELECT split_part(pg_read_file('postmaster.pid'), E'\n', 1)").Scan(&postmaster))
	return &server{s.URL, func() (sum time.Duration) {
		children := must(os.ReadFile("/proc/" + postmaster + "/task/" + postmaster + "/children"))
		for _, child := range strings.Fields(string(children)) {
			sum += cpuOf(must(strconv.Atoi(child)))
		}
		return sum
	}}
}

// cpuOf returns the CPU time of the living threads of a process so far. schedstat has it in
// nanoseconds, stat in ticks of 10 ms.
func cpuOf(process int) (sum time.Duration) {
	for _, path := range must(filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", process))) {
		var onCPU time.Duration
		if text, err := os.ReadFile(path); err == nil { // else the thread has ended
			must(fmt.Sscan(string(text), &onCPU))
		}
		sum += onCPU
	}
	return sum
}

// client is the programs of one contender in one setting.
type client struct {
	setting
	closers
	env    *env
	server *server
	sent   atomic.Int64 // packets: writes to a connection, of which each leaves as one, or as several full ones
}

// routed returns the URL of a server by the route of the setting.
func (c *client) routed(text string) string {
	u := must(url.Parse(text))
	if c.via == linked {
		if c.env.relays[u.Host] == "" {
			addr, end, err := slowlink.Start(u.Host)
			check(err)
			c.env.later(func() error { end(); return nil })
			c.env.relays[u.Host] = addr
		}
		u.Host = c.env.relays[u.Host]
	}
	return u.String()
}

// redis returns a client with go-redis's default settings.
func (c *client) redis() *redis.Client {
	options := must(redis.ParseURL(c.routed(c.server.url)))
	options.Dialer = c.dial
	client := redis.NewClient(options)
	c.later(client.Close)
	return client
}

// postgres returns a pool with a connection for each worker of one client, and more.
func (c *client) postgres(ctx context.Context, more int) *pgxpool.Pool {
	config := must(pgxpool.ParseConfig(c.routed(c.server.url)))
	config.MaxConns = int32(c.workers/c.clients + more)
	config.ConnConfig.DialFunc = c.dial
	// By default the pool pings a connection that was idle for more than a second, and the
	// packet would be counted as one of the operation's.
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	pool := must(pgxpool.NewWithConfig(ctx, config))
	c.later(func() error { pool.Close(); return nil })
	return pool
}
