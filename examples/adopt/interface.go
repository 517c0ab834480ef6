package adopt

import (
	"context"
	"crypto/rand"

	"github.com/fencepost/fencepost/sqlguard"
)

// Lock is the interface behind which a program hides its lock.
type Lock interface {
	Lock(ctx context.Context) (unlock func(), err error)
}

// Locked runs work under the lock and under a number that it mints. It takes the place of
// each Lock and unlock in the program.
func Locked(ctx context.Context, lock Lock, fence *sqlguard.Guard, work func(ctx context.Context) error) error {
	unlock, err := lock.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	ctx, err = fence.Mint(ctx, "account/42", "billing:"+rand.Text())
	if err != nil {
		return err
	}
	return work(ctx)
}
