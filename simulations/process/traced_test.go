package process_test

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/simulations/pgxpoint"
	"github.com/fencepost/fencepost/token/pgtoken"
)

// openTraced has the lock in the database of the rows, over a pool that is
// listened to.
func openTraced(ctx context.Context, text string) (simulations.Subject, func() error, error) {
	c, l, s, end, err := servers(ctx, text)
	if err != nil {
		return s, nil, err
	}
	config := l.pool.Config()
	config.ConnConfig.Tracer = pgxpoint.Tracer{}
	traced, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return s, nil, err
	}
	s.Issuer, s.Claim = &pgtoken.Issuer{DB: traced, Schema: c.Schema}, l.fence.Admit
	s.Do = func(ctx context.Context) error { return l.add(ctx, 0) }
	return s, func() error {
		traced.Close()
		return end()
	}, nil
}
