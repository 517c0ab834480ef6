package peer

import (
	"context"
	"errors"

	"github.com/fencepost/fencepost/token"
)

// Fencepost is a Locker of ours, whose tokens nobody uses.
func Fencepost(iss token.Issuer) Lock {
	locker := &token.Locker{Issuer: iss, Name: "bench", TTL: TTL}
	return Lock{
		Wait: func(ctx context.Context, resource string) (Unlock, error) {
			lease, err := locker.Acquire(ctx, resource)
			if err != nil {
				return nil, err
			}
			return lease.Release, nil
		},
		Try: func(ctx context.Context, resource string) (Unlock, error) {
			lease, err := locker.TryAcquire(ctx, resource)
			if errors.Is(err, token.ErrHeld) {
				err = errors.Join(ErrHeld, err)
			}
			if err != nil {
				return nil, err
			}
			return lease.Release, nil
		},
	}
}
