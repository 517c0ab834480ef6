package token

import (
	"context"
	"fmt"
)

// claim also refuses a lease that is over before its work began: granted in
// time but heard of too late, or lost while Claim ran. Where it fails, or
// Claim panics, nobody else could give the lease back.
func (l *Locker) claim(ctx context.Context, held *Lease) (err error) {
	claimed := false
	defer func() {
		if !claimed {
			err = held.end(ctx, err, 0) // it was not held: AtLeast does not count
		}
	}()
	if err := l.claimOnce(held); err != nil {
		return err
	}
	err = context.Cause(held.ctx)
	claimed = err == nil
	return err
}

// claiming is the key by which the context of a Claim says whose it is.
type claiming struct {
	locker *Locker
	lease  *lease
}

// claimOnce passes over what this Locker has claimed before, and what it is
// claiming: a Claim that holds the resource itself would come by here for ever.
func (l *Locker) claimOnce(held *Lease) error {
	if l.Claim == nil || held.ctx.Err() != nil {
		return nil
	}
	ctx, key := held.Context(), claiming{l, held.lease}
	if _, done := held.claimed.Load(l); done || ctx.Value(key) != nil {
		return nil
	}
	if err := l.Claim(context.WithValue(ctx, key, true), held.tok); err != nil {
		return fmt.Errorf("token: claim of %s: %w", held.tok, err)
	}
	held.claimed.Store(l, true)
	return nil
}
