package write

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/bench/measure"
)

const hotSQL = `SELECT sum(n_tup_upd)::bigint, sum(n_tup_hot_upd)::bigint
	FROM pg_stat_user_tables WHERE relname IN ('accounts', 'fenced')`

// hot is how many updates there were for each that was heap-only (HOT), which no
// index has to follow: 1 where all were. It needs a pool with one connection, the
// one that has to tell what it did.
func hot(pool *pgxpool.Pool) measure.Cost {
	read := func(ctx context.Context) (all, hot int64, err error) {
		if _, err := pool.Exec(ctx, "SELECT pg_stat_force_next_flush()"); err != nil {
			return 0, 0, err
		}
		err = pool.QueryRow(ctx, hotSQL).Scan(&all, &hot)
		return all, hot, err
	}
	return func(ctx context.Context, n int, block func() error) (float64, error) {
		allBefore, hotBefore, err := read(ctx)
		if err != nil {
			return 0, err
		}
		if err := block(); err != nil {
			return 0, err
		}
		all, hot, err := read(ctx)
		switch {
		case err != nil:
			return 0, err
		case all-allBefore != int64(n):
			return 0, errors.New("the server's statistics do not count every update")
		case hot == hotBefore:
			return 0, errors.New("none was heap-only")
		}
		return float64(n) / float64(hot-hotBefore), nil
	}
}
