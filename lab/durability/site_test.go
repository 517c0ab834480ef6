package durability_test

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/sqlguard/rowguard"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
	"github.com/fencepost/fencepost/token/redistoken"
)

// site is a process's connections and guards.
type site struct {
	redis            *redis.Client
	pool             *pgxpool.Pool
	db               *sql.DB
	fence            *sqlguard.Guard
	table            *rowguard.Table
	std              *stdsql.Guard
	selects, updates string
}

// idle is shorter than the TTL. Otherwise a transaction that sleeps would block its
// successors until it writes, and not even a twin would be corrupted.
const idle = ttl / 2

func connect(ctx context.Context, o order) (*site, error) {
	options, err := redis.ParseURL(o.Redis)
	if err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(o.Postgres)
	if err != nil {
		return nil, err
	}
	config.MaxConns = 12
	config.ConnConfig.RuntimeParams["application_name"] = o.Schema // settle searches for it
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	s := &site{
		redis: redis.NewClient(options), pool: pool, db: stdlib.OpenDBFromPool(pool),
		selects: in(o.Schema, selectSQL), updates: in(o.Schema, updateSQL),
	}
	observer := guard.Hooks{Reported: func(context.Context, error) {}}
	s.fence = &sqlguard.Guard{DB: pool, Schema: o.Schema, IdleTimeout: idle, DangerouslyReportOnly: o.Twin, Hooks: observer}
	s.table = &rowguard.Table{Guard: s.fence, Name: pgx.Identifier{o.Schema, "accounts"}, Prefix: kind}
	s.std = &stdsql.Guard{DB: s.db, Schema: o.Schema, IdleTimeout: idle, DangerouslyReportOnly: o.Twin, Hooks: observer}
	return s, nil
}

func (s *site) close() {
	_ = s.db.Close()
	s.pool.Close()
	_ = s.redis.Close()
}

var issuers = map[string]func(*site, order) issuer{
	"redistoken": func(s *site, o order) issuer { return &redistoken.Issuer{Client: s.redis, Prefix: o.Prefix} },
	"pgtoken":    func(s *site, o order) issuer { return &pgtoken.Issuer{DB: s.pool, Schema: o.Schema} },
}

type issuer interface {
	token.Issuer
	token.QueueIssuer
	token.Recoverer
	io.Closer
}

// drowsy is an issuer whose holders can sleep: their leases are not renewed, and they get
// no notice of that.
type drowsy struct {
	issuer
	asleep sync.Map // of holders
}

func (d *drowsy) Unwrap() token.Issuer { return d.issuer }

var errAsleep = errors.New("durability: the holder sleeps")

// Renew does nothing if the holder sleeps.
func (d *drowsy) Renew(ctx context.Context, tok token.Token, ttl time.Duration) (time.Time, error) {
	if _, asleep := d.asleep.Load(tok.Holder); asleep {
		return time.Time{}, errAsleep
	}
	return d.issuer.Renew(ctx, tok, ttl)
}

// sleep returns when the lock of tok's holder has expired, and other holders have had
// time to acquire it.
func (d *drowsy) sleep(tok token.Token, longer time.Duration) {
	d.asleep.Store(tok.Holder, true)
	defer d.asleep.Delete(tok.Holder)
	time.Sleep(ttl + ttl/2 + longer)
}

const (
	selectSQL = "SELECT value FROM {schema}.accounts WHERE id = $1"
	updateSQL = "UPDATE {schema}.accounts SET value = $2, unit = $3 WHERE id = $1"
)

// way reads a row, calls work, and writes the value plus one, under the context's token.
type way struct {
	claim func(s *site) func(context.Context, token.Token) error
	add   func(ctx context.Context, s *site, c change) error
}

// change is one read-modify-write.
type change struct {
	key, unit string
	work      func(seen int)
}

var ways = map[string]way{
	"sqlguard.Update": {claimPgx, addByUpdate},
	"sqlguard.On":     {claimPgx, addByOn},
	"rowguard.Table":  {claimRow, addByTable},
	"stdsql.Update":   {claimStd, addByStd},
}

func claimPgx(s *site) func(context.Context, token.Token) error { return s.fence.Admit }
func claimRow(s *site) func(context.Context, token.Token) error { return s.table.Claim }
func claimStd(s *site) func(context.Context, token.Token) error { return s.std.Admit }

func addByUpdate(ctx context.Context, s *site, c change) error {
	return s.fence.Update(ctx, resource(c.key), func(tx pgx.Tx) error {
		var seen int
		if err := tx.QueryRow(ctx, s.selects, c.key).Scan(&seen); err != nil {
			return err
		}
		c.work(seen)
		_, err := tx.Exec(ctx, s.updates, c.key, seen+1, c.unit)
		return err
	})
}

func addByOn(ctx context.Context, s *site, c change) error {
	return s.addApart(ctx, c, func(seen int) error {
		_, err := s.fence.On(resource(c.key)).Exec(ctx, s.updates, c.key, seen+1, c.unit)
		return err
	})
}

func addByTable(ctx context.Context, s *site, c change) error {
	return s.addApart(ctx, c, func(seen int) error {
		return s.table.Update(ctx, c.key, rowguard.Set{"value": seen + 1, "unit": c.unit})
	})
}

// addApart reads on one connection and writes on another.
func (s *site) addApart(ctx context.Context, c change, write func(seen int) error) error {
	var seen int
	if err := s.pool.QueryRow(ctx, s.selects, c.key).Scan(&seen); err != nil {
		return err
	}
	c.work(seen)
	return write(seen)
}

func addByStd(ctx context.Context, s *site, c change) error {
	return s.std.Update(ctx, resource(c.key), func(tx *sql.Tx) error {
		var seen int
		if err := tx.QueryRowContext(ctx, s.selects, c.key).Scan(&seen); err != nil {
			return err
		}
		c.work(seen)
		_, err := tx.ExecContext(ctx, s.updates, c.key, seen+1, c.unit)
		return err
	})
}
