package adopt

import (
	"context"
	"time"

	"github.com/bsm/redislock"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/sqlguard"
)

// Redislock keeps the redislock client and numbers each lock it obtains.
func Redislock(ctx context.Context, locks *redislock.Client, pool *pgxpool.Pool, work func(pgx.Tx) error) error {
	lock, err := locks.Obtain(ctx, "account/42", 10*time.Second, nil)
	if err != nil {
		return err
	}
	defer lock.Release(context.WithoutCancel(ctx))
	fence := &sqlguard.Guard{DB: pool}
	ctx, err = fence.Mint(ctx, "account/42", lock.Token())
	if err != nil {
		return err
	}
	return fence.Update(ctx, "account/42", work)
}
