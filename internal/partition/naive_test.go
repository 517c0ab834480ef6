package partition_test

import (
	"context"
	"time"

	"github.com/fencepost/fencepost/token"
)

// usual is how long clients of Redis wait for an answer.
const usual = 3 * time.Second

// holdNaively renews in time, and believes that it has the lock until a renewal
// fails.
func holdNaively(ctx context.Context, iss token.Issuer, resource string) (lock, error) {
	grant, err := iss.Acquire(ctx, resource, "naive:1", ttl)
	if err != nil {
		return lock{}, err
	}
	held, lose := context.WithCancelCause(ctx)
	go func() {
		for {
			time.Sleep(ttl / 3)
			asked, cancel := context.WithTimeout(ctx, usual)
			_, err := iss.Renew(asked, grant.Token, ttl)
			cancel()
			if err != nil {
				lose(err)
				return
			}
		}
	}()
	return lock{held, func(ctx context.Context) error { return iss.Release(ctx, grant.Token) }}, nil
}
