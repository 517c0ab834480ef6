package renew

import (
	"context"
	"time"
)

// acquire takes a period for all leases, and so do their renewals.
func (g *Group) acquire(ctx context.Context, k keeper) error {
	start := time.Now()
	for lease := range g.Leases {
		due := start.Add(g.period() * time.Duration(lease) / time.Duration(g.Leases))
		if ahead := time.Until(due); ahead > time.Millisecond {
			if err := pause(ctx, ahead); err != nil {
				return err
			}
		}
		if err := k.keep(context.WithoutCancel(ctx), lease); err != nil {
			return err
		}
	}
	return pause(ctx, time.Until(start.Add(g.period())))
}

// release does it one after the other: more connections would have more buffers
// than there were before.
func (g *Group) release(ctx context.Context, k keeper) error {
	for lease := range g.Leases {
		if err := k.release(ctx, lease); err != nil {
			return err
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
