package pgxpoint_test

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/simulations/pgxpoint"
)

// The test opens its pool with the tracer; the program's own code does not change.
func ExampleTracer() {
	open := func(ctx context.Context, url string) (*pgxpool.Pool, error) {
		config, err := pgxpool.ParseConfig(url)
		if err != nil {
			return nil, err
		}
		config.ConnConfig.Tracer = pgxpoint.Tracer{}
		return pgxpool.NewWithConfig(ctx, config)
	}
	_ = open
}
