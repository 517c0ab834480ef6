package http

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/bench/measure"
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/token/seal"
)

// Group is the marks, the fields of the requests, and the servers that the figures
// need.
type Group struct {
	marks                      guard.Memory
	ring                       *seal.Ring
	current, sealed, overtaken fields
	loopback                   loopback
	pool                       *pgxpool.Pool
	redis                      *redis.Client // nil: none is measured
}

// Open makes the marks in the database at postgres, which must be empty, and belongs
// to the group from then on, as the Redis at redisURL does. An empty redisURL leaves
// its figure out.
func Open(ctx context.Context, postgresURL, redisURL string) (*Group, error) {
	g := &Group{}
	if err := g.open(ctx, postgresURL, redisURL); err != nil {
		g.Close()
		return nil, fmt.Errorf("http: %w", err)
	}
	return g, nil
}

func (g *Group) open(ctx context.Context, postgresURL, redisURL string) error {
	if err := g.prepare(); err != nil {
		return err
	}
	if redisURL != "" {
		options, err := redis.ParseURL(redisURL)
		if err != nil {
			return err
		}
		g.redis = redis.NewClient(options)
	}
	var err error
	if g.pool, err = pgxpool.New(ctx, postgresURL); err != nil {
		return err
	}
	db := stdlib.OpenDBFromPool(g.pool)
	defer db.Close()
	if err := migrations.Up(ctx, db); err != nil {
		return err
	}
	return g.loopback.open(g)
}

// prepare writes the fields once: what clients do is not measured.
func (g *Group) prepare() (err error) {
	secret := []byte("no secret, but as long as one is")
	if g.ring, err = seal.New(seal.Key{ID: "2026-11", Secret: secret}); err != nil {
		return err
	}
	if g.current, err = unsealed(current); err != nil {
		return err
	}
	if g.overtaken, err = unsealed(overtaken); err != nil {
		return err
	}
	g.sealed, err = sealed(g.ring)
	return err
}

// Close ends the server and closes what was opened.
func (g *Group) Close() {
	g.loopback.close()
	if g.redis != nil {
		_ = g.redis.Close()
	}
	if g.pool != nil {
		g.pool.Close()
	}
}

// Figures are in the order in which they are to be measured.
func (g *Group) Figures() []measure.Figure {
	figures := g.inMemory()
	for _, workers := range []int{1, many} {
		figures = append(figures, g.endToEnd(workers)...)
	}
	return append(figures, g.besideStores()...)
}

// claim gives each worker's account the mark of its newest token.
func (g *Group) claim(ctx context.Context) error {
	for worker := range many {
		if err := g.marks.Admit(ctx, current(worker)); err != nil {
			return err
		}
	}
	return nil
}
