package simulate

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/fencepost/fencepost/sqlguard"
)

func openPostgres(ctx context.Context, s setup) (*store, error) {
	pool, err := connectPostgres(ctx, s)
	if err != nil {
		return nil, err
	}
	db := stdlib.OpenDBFromPool(pool)
	fence := &sqlguard.Guard{DB: pool, Schema: s.Schema}
	update := func(ctx context.Context, resource, statement string, args ...any) error {
		return fence.Update(ctx, resource, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, statement, args...)
			return err
		})
	}
	closeAll := func() error {
		err := db.Close()
		pool.Close()
		return err
	}
	return &store{db: db, schema: pgx.Identifier{s.Schema}.Sanitize(), fence: fence, update: update, close: closeAll}, nil
}

func connectPostgres(ctx context.Context, s setup) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(s.Postgres)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err) // pgx leaves the password out
	}
	config.MaxConns = 2
	if _, given := config.ConnConfig.RuntimeParams["application_name"]; !given {
		config.ConnConfig.RuntimeParams["application_name"] = "fencepost simulate " + s.Name
	}
	ctx, cancel := context.WithTimeoutCause(ctx, reach, errNoAnswer)
	defer cancel()
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("postgres cannot be used: %w", because(ctx, err))
	}
	return pool, nil
}

var errNoAnswer = errors.New("no answer within " + reach.String())

// because names the reason of a context that ended, where that is what failed.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}
