package wire

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Postgres returns a pool of so many connections, which are counted, and whose
// commits wait for the disk.
func (c *Counter) Postgres(ctx context.Context, url string, size int32) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = size
	config.ConnConfig.DialFunc = c.Dial
	config.ConnConfig.RuntimeParams["synchronous_commit"] = "on"
	return pgxpool.NewWithConfig(ctx, config)
}
