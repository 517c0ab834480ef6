package write

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/bench/measure"
)

// wal is how many bytes of the log one operation wrote, on a server on which
// nobody else writes. What its own processes write (a page's first change after
// a checkpoint, a list of what runs) the median leaves out.
func wal(pool *pgxpool.Pool) measure.Cost {
	at := func(ctx context.Context) (bytes int64, err error) {
		err = pool.QueryRow(ctx, "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").Scan(&bytes)
		return bytes, err
	}
	return func(ctx context.Context, n int, block func() error) (float64, error) {
		before, err := at(ctx)
		if err != nil {
			return 0, err
		}
		if err := block(); err != nil {
			return 0, err
		}
		after, err := at(ctx)
		return float64(after-before) / float64(n), err
	}
}
