package write

import (
	"context"
	_ "embed"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/fencepost/fencepost/bench/measure"
	"github.com/fencepost/fencepost/migrations"
)

//go:embed tables.sql
var tablesSQL string

// Group is the tables and the pools that the figures work on.
type Group struct {
	durable, asynchronous, one *pgxpool.Pool // one has one connection
	written                    atomic.Int64
}

// Open makes the marks and the tables in the database at url, which must be
// empty, and belongs to the group from then on.
func Open(ctx context.Context, url string) (*Group, error) {
	g := &Group{}
	if err := g.open(ctx, url); err != nil {
		g.Close()
		return nil, fmt.Errorf("write: %w", err)
	}
	return g, nil
}

func (g *Group) open(ctx context.Context, url string) (err error) {
	if g.durable, err = connect(ctx, url, many, "on"); err != nil {
		return err
	}
	if g.asynchronous, err = connect(ctx, url, many, "off"); err != nil {
		return err
	}
	if g.one, err = connect(ctx, url, 1, "on"); err != nil {
		return err
	}
	db := stdlib.OpenDBFromPool(g.durable)
	defer db.Close()
	if err := migrations.Up(ctx, db); err != nil {
		return err
	}
	_, err = g.durable.Exec(ctx, tablesSQL)
	return err
}

// connect returns a pool in which a commit waits for the disk, or does not.
func connect(ctx context.Context, url string, size int32, synchronousCommit string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = size
	config.ConnConfig.RuntimeParams["synchronous_commit"] = synchronousCommit
	return pgxpool.NewWithConfig(ctx, config)
}

// Close closes the pools.
func (g *Group) Close() {
	for _, pool := range []*pgxpool.Pool{g.durable, g.asynchronous, g.one} {
		if pool != nil {
			pool.Close()
		}
	}
}

// Figures are in the order in which they are to be measured. What is counted on
// the server comes first: its statistics are late with what other connections did.
func (g *Group) Figures() []measure.Figure {
	figures := g.counted(mode{pool: g.one, workers: 1})
	for _, m := range []mode{
		{pool: g.durable, workers: 1},
		{pool: g.asynchronous, workers: 1, asynchronous: true},
		{pool: g.durable, workers: many},
	} {
		figures = append(figures, g.timed(m)...)
	}
	return figures
}

// next is a balance that no account has had: what is written changes the row.
func (g *Group) next() int64 { return g.written.Add(1) }
