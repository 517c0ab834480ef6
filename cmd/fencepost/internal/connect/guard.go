package connect

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/cli"
	"github.com/fencepost/fencepost/internal/depose"
	"github.com/fencepost/fencepost/redisguard"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
)

// Guard is a server with marks. Its name is its URL, without a password.
type Guard struct {
	depose.Guard
	// Mark returns the mark of a resource: the zero Mark if it has none.
	Mark  func(ctx context.Context, resource string) (guard.Mark, error)
	Close func()
}

// OpenGuard connects to the server of --guard, if it answers: a PostgreSQL, whose marks are in
// schema, a Redis or a MySQL. idle is how long an open transaction of a deposed holder may go on.
func OpenGuard(ctx context.Context, url, schema, application string, idle time.Duration) (*Guard, error) {
	scheme, _, isURL := strings.Cut(url, "://")
	if scheme == "redis" || scheme == "rediss" || scheme == "unix" {
		client, ping, err := Redis(url, "--guard")
		if err != nil {
			return nil, err
		}
		store := &redisguard.Guard{Client: client}
		return (&Guard{depose.Guard{Name: cli.Redacted(url), Store: store}, redisMark(client), func() { client.Close() }}).ifOpen(ctx, ping)
	}
	if pool, ping, err := Pool(url, "--guard", application); err == nil {
		store := &sqlguard.Guard{DB: pool, Schema: schema, IdleTimeout: idle}
		query := "SELECT number, holder FROM " + pgx.Identifier{cmp.Or(schema, "fencepost"), "marks"}.Sanitize() + " WHERE resource = $1"
		return (&Guard{depose.Guard{Name: cli.Redacted(url), Store: store}, func(ctx context.Context, resource string) (guard.Mark, error) {
			return scanned(pool.QueryRow(ctx, query, pgx.QueryExecModeExec, resource))
		}, pool.Close}).ifOpen(ctx, ping)
	}
	server, err := (&Database{MySQL: url}).Server(application)
	if isURL || err != nil {
		return nil, BadURL("--guard: neither a postgres:// or redis:// URL nor a DSN of MySQL")
	}
	db, err := server.Open(ctx)
	if err != nil {
		return nil, err
	}
	name := "mysql at " + server.Address + ", database " + server.Database
	store := &stdsql.Guard{DB: db, Dialect: stdsql.MySQL, IdleTimeout: idle}
	return &Guard{depose.Guard{Name: name, Store: store}, func(ctx context.Context, resource string) (guard.Mark, error) {
		return scanned(db.QueryRowContext(ctx, "SELECT number, holder FROM fencepost_marks WHERE resource = ?", resource))
	}, func() { db.Close() }}, nil
}

func (g *Guard) ifOpen(ctx context.Context, ping func(ctx context.Context) error) (*Guard, error) {
	if err := ping(ctx); err != nil {
		g.Close()
		return nil, WithCause(ctx, err)
	}
	return g, nil
}

func scanned(row interface{ Scan(into ...any) error }) (mark guard.Mark, err error) {
	if err = row.Scan(&mark.Number, &mark.Holder); errors.Is(err, sql.ErrNoRows) { // pgx's is this one too
		err = nil
	}
	return mark, err
}

// redisMark reads a mark that redisguard has written: a number, a space and a holder.
func redisMark(client *redis.Client) func(ctx context.Context, resource string) (guard.Mark, error) {
	return func(ctx context.Context, resource string) (mark guard.Mark, err error) {
		text, err := client.Get(ctx, redisguard.MarkKey(resource)).Result()
		if errors.Is(err, redis.Nil) {
			return mark, nil
		}
		number, holder, _ := strings.Cut(text, " ")
		if mark.Holder = holder; err == nil {
			_, err = fmt.Sscan(number, &mark.Number)
		}
		return mark, err
	}
}
