package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/migrations"
)

// opening calls open, which may use must and check: these end the open function on an
// error, and opening returns that error. Measured operations return their errors
// themselves.
func opening(open func()) (err error) {
	defer func() {
		if over := recover(); over != nil {
			f, ok := over.(failure)
			if !ok {
				panic(over)
			}
			err = f.error
		}
	}()
	open()
	return nil
}

type failure struct{ error }

func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

// serverKind is a server whose CPU time can be measured.
type serverKind int

const (
	noServer serverKind = iota
	redisServer
	postgresServer
)

// route is the route from a client to its servers.
type route int

const (
	direct route = iota
	linked       // through the relay
)

// env has the servers. They are started when they are first needed.
type env struct {
	pace       pace
	redisAt    string
	ofRedis    *redis.Client   // connection that reads its CPU time
	postgres   string          // the server's own URL
	postmaster int             // its process id
	databases  map[string]bool // existing databases
	relays     map[string]*relayProcess
	closers    []func() error // called in reverse order
}

// close ends the relays and the servers.
func (e *env) close() (err error) {
	for _, r := range e.relays {
		r.close()
	}
	for _, closer := range slices.Backward(e.closers) {
		err = errors.Join(err, closer())
	}
	return err
}

// addr returns the address of a server by the route.
func (e *env) addr(via route, addr string) string {
	if via == direct {
		return addr
	}
	if e.relays[addr] == nil {
		r := startRelay(addr)
		if e.relays == nil {
			e.relays = map[string]*relayProcess{}
		}
		e.relays[addr] = r
	}
	return e.relays[addr].addr
}

// routed returns the URL of a server by the route.
func (e *env) routed(via route, text string) string {
	u := must(url.Parse(text))
	u.Host = e.addr(via, u.Host)
	return u.String()
}

// redisURL returns the URL of a Redis that stores nothing on disk.
func (e *env) redisURL() string {
	if e.redisAt == "" {
		s := must(testenv.StartRedis())
		e.closers = append(e.closers, s.Stop)
		e.redisAt = s.URL
	}
	return e.redisAt
}

// startPostgres starts a server that waits for its disk. Checkpoints and vacuums are
// postponed, since they would disturb single blocks.
func (e *env) startPostgres(ctx context.Context) {
	if e.postgres != "" {
		return
	}
	s := must(testenv.StartPostgres("fsync=on", "synchronous_commit=on", "max_wal_size=16GB", "checkpoint_timeout=1h",
		"max_connections=600", "shared_buffers=512MB", "autovacuum=off"))
	e.closers = append(e.closers, s.Stop)
	conn := must(pgx.Connect(ctx, s.URL))
	defer conn.Close(ctx)
	var backend int
	check(conn.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&backend))
	e.postmaster = must(parentOf(backend))
	e.postgres = s.URL
}

//go:embed tables.sql
var tablesSQL string

// database makes the database of that name, with the marks and the tables.
func (e *env) database(ctx context.Context, name string) string {
	e.startPostgres(ctx)
	u := must(url.Parse(e.postgres))
	u.Path = "/" + name
	if e.databases[name] {
		return u.String()
	}
	conn := must(pgx.Connect(ctx, e.postgres))
	defer conn.Close(ctx)
	must(conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()))
	pool := must(pgxpool.New(ctx, u.String()))
	defer pool.Close()
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	check(migrations.Set{}.Up(ctx, db))
	must(pool.Exec(ctx, tablesSQL))
	if e.databases == nil {
		e.databases = map[string]bool{}
	}
	e.databases[name] = true
	return u.String()
}

// cpu returns the server's CPU time so far. Redis reports it. For PostgreSQL it is the
// sum over all processes of the postmaster.
func (e *env) cpu(server serverKind) func(ctx context.Context) time.Duration {
	switch server {
	case redisServer:
		return e.redisCPU
	case postgresServer:
		return func(context.Context) time.Duration { return must(childrenCPU(e.postmaster)) }
	default:
		return func(context.Context) time.Duration { return 0 }
	}
}

// redisCPU reads it over a connection of its own.
func (e *env) redisCPU(ctx context.Context) (used time.Duration) {
	if e.ofRedis == nil {
		e.ofRedis = redis.NewClient(must(redis.ParseURL(e.redisAt)))
		e.closers = append(e.closers, e.ofRedis.Close)
	}
	info := must(e.ofRedis.Info(ctx, "cpu").Result())
	found := 0
	for line := range strings.Lines(info) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name != "used_cpu_sys" && name != "used_cpu_user" {
			continue
		}
		found, used = found+1, used+time.Duration(must(strconv.ParseFloat(text, 64))*float64(time.Second))
	}
	if found != 2 {
		check(fmt.Errorf("INFO cpu has no used_cpu_sys and used_cpu_user: %s", info))
	}
	return used
}

// client is one program that uses the servers. Its connections count what they send.
type client struct {
	env     *env
	route   route
	workers int // of this program
	sent    *counter
	closers []func() // called in reverse order
}

func (c *client) close() {
	for _, closer := range slices.Backward(c.closers) {
		closer()
	}
}

// clients are closed together, in reverse order.
type clients []*client

func (all *clients) close() {
	for _, c := range slices.Backward(*all) {
		c.close()
	}
}

// add adds a client and returns it.
func (all *clients) add(c client) *client {
	*all = append(*all, &c)
	return &c
}

// later registers a function that is called when the client is closed.
func (c *client) later(closer func() error) {
	c.closers = append(c.closers, func() { _ = closer() })
}

// redis returns a client with go-redis's default settings.
func (c *client) redis() *redis.Client {
	options := must(redis.ParseURL(c.redisURL()))
	options.Dialer = c.sent.dial
	client := redis.NewClient(options)
	c.later(client.Close)
	return client
}

func (c *client) redisURL() string { return c.env.routed(c.route, c.env.redisURL()) }

// postgres returns a pool of that many connections.
func (c *client) postgres(ctx context.Context, database string, size int) *pgxpool.Pool {
	config := must(pgxpool.ParseConfig(c.env.routed(c.route, c.env.database(ctx, database))))
	config.MaxConns = int32(size)
	config.ConnConfig.DialFunc = c.sent.dial
	// By default the pool pings a connection that was idle for more than a second, and the
	// packet would be counted as one of the operation's.
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	pool := must(pgxpool.NewWithConfig(ctx, config))
	c.closers = append(c.closers, pool.Close)
	return pool
}
