package adopt

import (
	"context"

	"github.com/go-redsync/redsync/v4"

	"github.com/fencepost/fencepost/sqlguard/stdsql"
)

// Numbered keeps the redsync mutex, and numbers each acquisition of it in the
// database that the work writes to. The work gets the number in its context.
func Numbered(ctx context.Context, mutex *redsync.Mutex, fence *stdsql.Guard, work func(ctx context.Context) error) error {
	if err := mutex.LockContext(ctx); err != nil {
		return err
	}
	defer mutex.UnlockContext(context.WithoutCancel(ctx))
	ctx, err := fence.Mint(ctx, "account/42", mutex.Value())
	if err != nil {
		return err
	}
	return work(ctx)
}
