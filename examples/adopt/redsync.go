package adopt

import (
	"context"

	"github.com/go-redsync/redsync/v4"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/sqlguard"
)

// Redsync keeps the redsync mutex and numbers each acquisition of it.
func Redsync(ctx context.Context, mutex *redsync.Mutex, pool *pgxpool.Pool, work func(pgx.Tx) error) error {
	if err := mutex.LockContext(ctx); err != nil {
		return err
	}
	defer mutex.UnlockContext(context.WithoutCancel(ctx))
	fence := &sqlguard.Guard{DB: pool}
	ctx, err := fence.Mint(ctx, "account/42", mutex.Value())
	if err != nil {
		return err
	}
	return fence.Update(ctx, "account/42", work)
}
