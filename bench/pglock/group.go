package pglock

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/fencepost/fencepost/bench/measure"
	"github.com/fencepost/fencepost/bench/wire"
	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/token/pgtoken"
)

//go:embed tables.sql
var tablesSQL string

// Group is the tables, the pools and the locks that are measured.
type Group struct {
	sent     wire.Counter
	pool     *pgxpool.Pool // of the baseline and the issuer
	issuer   *pgtoken.Issuer
	claiming *pgtoken.Issuer
	advisory *pgtoken.Advisory
	sides    []*side
	closers  []func() error // the last first
	written  atomic.Int64
}

// Open makes the tables in the database at url, which must be empty, and belongs
// to the group from then on.
func Open(ctx context.Context, url string) (*Group, error) {
	g := &Group{}
	if err := g.open(ctx, url); err != nil {
		g.Close()
		return nil, fmt.Errorf("pglock: %w", err)
	}
	return g, nil
}

func (g *Group) open(ctx context.Context, url string) (err error) {
	if g.pool, err = g.connect(ctx, url, &g.sent, many); err != nil {
		return err
	}
	sessions, err := g.connect(ctx, url, &g.sent, 2*many)
	if err != nil {
		return err
	}
	g.issuer, g.claiming = &pgtoken.Issuer{DB: g.pool}, &pgtoken.Issuer{DB: g.pool, Claims: true}
	g.advisory = &pgtoken.Advisory{Pool: sessions}
	g.closers = append(g.closers, g.issuer.Close, g.claiming.Close, g.advisory.Close)
	db := stdlib.OpenDBFromPool(g.pool)
	defer db.Close()
	if err := migrations.Up(ctx, db); err != nil {
		return err
	}
	if _, err := g.pool.Exec(ctx, tablesSQL); err != nil {
		return err
	}
	return g.openSides(ctx, url)
}

func (g *Group) connect(ctx context.Context, url string, sent *wire.Counter, size int32) (*pgxpool.Pool, error) {
	pool, err := sent.Postgres(ctx, url, size)
	if err == nil {
		g.closers = append(g.closers, func() error { pool.Close(); return nil })
	}
	return pool, err
}

// Close closes the issuers and then their pools.
func (g *Group) Close() {
	for _, closer := range slices.Backward(g.closers) {
		_ = closer()
	}
}

// Measurements are in the order in which they are to be measured.
func (g *Group) Measurements() []measure.Measurement {
	figures := g.counted()
	for _, workers := range []int{1, many} {
		figures = append(figures, g.timed(workers)...)
	}
	return append(measure.All(figures), g.trial())
}
