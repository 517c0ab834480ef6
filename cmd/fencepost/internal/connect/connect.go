// Package connect connects the commands to servers: it parses URLs, bounds the time that a
// server has to answer, and adds to errors what to do.
//
//	connect.go   PostgreSQL and Redis; timeouts, and errors without the URL
//	database.go  --postgres or --mysql of the commands about marks; missing rights
//	etcd.go      --etcd
//	guard.go     --guard: stores of marks, and what they have of a resource
//	locks.go     the issuer that the flags name
package connect

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/internal/engine"
)

// Timeout bounds the first answer of a server. Tests raise it for busy machines.
var Timeout = 5 * time.Second

// Within returns ctx, bounded by [Timeout].
func Within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, Timeout, fmt.Errorf("no answer within %s", Timeout))
}

// WithCause adds to err the cause of ctx if ctx has ended, unless err has that cause.
func WithCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// BadURL is the error for a URL that cannot be parsed. The drivers' own errors
// quote the URL, and leave out the password only if the URL is well-formed.
func BadURL(what string) error {
	return errors.New(what + " that can be read; in a URL, a password's special characters are %-encoded")
}

// PostgresPool parses the URL, which flag has, and sets application_name, unless the URL does.
// It returns an error if url is empty or cannot be parsed, and for a URL that pgx takes for a
// keyword if it has a parameter, as postgres:host:5432, jdbc:postgresql://host or one behind a
// space: pgx would connect to its default server and send that, with a password, as a setting.
func PostgresPool(url, flag, application string) (*pgxpool.Config, error) {
	if url == "" { // as from a variable that is not set
		return nil, errors.New(flag + ": the URL is empty")
	}
	config, err := pgxpool.ParseConfig(url)
	keyword, _, _ := strings.Cut(url, "=")
	isURL := strings.HasPrefix(url, "postgres://") || strings.HasPrefix(url, "postgresql://")
	if err != nil || !isURL && strings.ContainsAny(keyword, ":/@") {
		return nil, BadURL(flag + ": neither a postgres:// URL nor keyword=value pairs")
	}
	if _, given := config.ConnConfig.RuntimeParams["application_name"]; !given {
		config.ConnConfig.RuntimeParams["application_name"] = application
	}
	return config, nil
}

// PostgresConfig is [PostgresPool] for one connection, without settings of a pool.
func PostgresConfig(url, application string) (*pgx.ConnConfig, error) {
	config, err := PostgresPool(url, "postgres", application)
	if err != nil {
		return nil, err
	}
	return config.ConnConfig, nil
}

// PostgresDB returns a database/sql pool, if the server answers within [Timeout].
func PostgresDB(ctx context.Context, config *pgx.ConnConfig) (*sql.DB, error) {
	return answering(ctx, stdlib.OpenDB(*config), "postgres")
}

// answering returns db, if the server answers within [Timeout].
func answering(ctx context.Context, db *sql.DB, server string) (*sql.DB, error) {
	ctx, cancel := Within(ctx)
	defer cancel()
	if err := db.PingContext(ctx); err != nil {
		db.Close()
		return nil, fmt.Errorf("%s cannot be used: %w", server, WithCause(ctx, err))
	}
	return db, nil
}

// RedisOptions parses the URL, which flag has. It returns an error unless the URL has a host,
// or a path after unix://: the driver takes redis:host:6379 for a server on this machine.
func RedisOptions(text, flag string) (*redis.Options, error) {
	options, err := redis.ParseURL(text)
	if u, _ := url.Parse(text); err != nil || options.Network != "unix" && u.Hostname() == "" {
		return nil, BadURL(flag + ": not a redis:// URL with a host, as redis://host:6379, or unix:///path,")
	}
	options.ContextTimeoutEnabled = true
	return options, nil
}

// Redis returns a client, and a function that returns an error if the server does not
// answer, or is a node of a Cluster or a Sentinel. flag has the URL.
func Redis(url, flag string) (*redis.Client, func(ctx context.Context) error, error) {
	options, err := RedisOptions(url, flag)
	if err != nil {
		return nil, nil, err
	}
	client := redis.NewClient(options)
	return client, func(ctx context.Context) error {
		err := client.Ping(ctx).Err()
		if err == nil {
			err = hasAllKeys(ctx, client)
		}
		if err != nil {
			return fmt.Errorf("redis at %s cannot be used: %w", options.Addr, err)
		}
		return nil
	}, nil
}

// hasAllKeys returns an error for a Sentinel, and for a node of a Cluster. A node that has all
// slots is refused too: a slot can move to another node while the command runs.
func hasAllKeys(ctx context.Context, client *redis.Client) error {
	hello := redis.NewMapStringInterfaceCmd(ctx, "hello") // every user may send it
	var mode string
	if err := client.Process(ctx, hello); err == nil {
		mode = fmt.Sprint("redis_mode:", hello.Val()["mode"])
	} else if mode, err = client.Info(ctx, "server").Result(); err != nil { // Redis 5 has no HELLO
		var hidden redis.Error
		if !errors.As(err, &hidden) {
			return err
		}
	}
	switch {
	case strings.Contains(mode, "redis_mode:cluster"):
		return errors.New("it is a node of a Cluster: give the URL of a Redis that has all keys, or use package redistoken or redisguard with a ClusterClient")
	case strings.Contains(mode, "redis_mode:sentinel"):
		return errors.New("it is a Sentinel: give the URL of the Redis that it watches")
	}
	return nil
}

// NotMigrated adds to err that fencepost migrate up is to be run, if the database lacks what
// the migrations make. schema is PostgreSQL's.
func NotMigrated(schema string, err error) error {
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg) && slices.Contains([]string{"3F000", "42P01", "42883"}, pg.Code): // no such schema, table, function
		return fmt.Errorf("schema %s lacks what the migrations make: run fencepost migrate up: %w", pgx.Identifier{schema}.Sanitize(), err)
	case engine.MySQLNumber(err) == 1146: // no such table
		return fmt.Errorf("the database lacks what the migrations make: run fencepost migrate up --mysql: %w", err)
	}
	return err
}
