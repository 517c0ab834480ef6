package acknowledged_test

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
)

// site is a process's connections and guards.
type site struct {
	redis            *redis.Client
	pool             *pgxpool.Pool
	db               *sql.DB
	fence            *sqlguard.Guard
	table            *sqlguard.Table
	std              *stdsql.Guard
	selects, updates string
}

// idle is below the ttl, or a transaction that sleeps keeps its successors out
// until it writes: then not even a twin is corrupted.
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
	config.ConnConfig.RuntimeParams["application_name"] = o.Schema // see quiet
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	s := &site{
		redis: redis.NewClient(options), pool: pool, db: stdlib.OpenDBFromPool(pool),
		selects: in(o.Schema, selectSQL), updates: in(o.Schema, updateSQL),
	}
	observer := guard.Observer{Observed: func(context.Context, error) {}}
	s.fence = &sqlguard.Guard{DB: pool, Schema: o.Schema, Idle: idle, DangerouslyObserve: o.Twin, Observer: observer}
	s.table = &sqlguard.Table{Guard: s.fence, Name: pgx.Identifier{o.Schema, "accounts"}, Prefix: kind}
	s.std = &stdsql.Guard{DB: s.db, Schema: o.Schema, Idle: idle, DangerouslyObserve: o.Twin, Observer: observer}
	return s, nil
}

func (s *site) close() {
	_ = s.db.Close()
	s.pool.Close()
	_ = s.redis.Close()
}
