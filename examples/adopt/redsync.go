package adopt

import (
	"context"

	"github.com/go-redsync/redsync/v4"
	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/sqlguard"
)

// Redsync keeps the redsync mutex and numbers each acquisition of it.
func Redsync(ctx context.Context, mutex *redsync.Mutex, fence *sqlguard.Guard, resource string,
	work func(context.Context, pgx.Tx) error) error {
	if err := mutex.LockContext(ctx); err != nil {
		return err
	}
	defer mutex.UnlockContext(context.WithoutCancel(ctx))
	ctx, err := fence.Mint(ctx, resource, mutex.Value())
	if err != nil {
		return err
	}
	return fence.Update(ctx, resource, func(tx pgx.Tx) error { return work(ctx, tx) })
}
