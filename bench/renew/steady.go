package renew

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/fencepost/fencepost/bench/measure"
	"github.com/fencepost/fencepost/token"
)

// What is read off leases that are renewed evenly.
const (
	client  = "client CPU"
	server  = "Redis CPU"
	packets = "packets"
	state   = "renewal state"
)

type newKeeper func(iss token.Issuer, g *Group, renewed func()) keeper

// steady keeps all leases for d, or the periods in it.
func (g *Group) steady(of newKeeper) measure.Run {
	return func(ctx context.Context, d time.Duration) (measure.Reading, error) {
		var renewals atomic.Int64
		k := of(g.issuer, g, func() { renewals.Add(1) })
		if err := g.acquire(ctx, k); err != nil {
			return nil, err
		}
		periods := max(d/g.period(), 1)
		before, err := g.usage(ctx, renewals.Load())
		if err != nil {
			return nil, err
		}
		if err := pause(ctx, periods*g.period()); err != nil {
			return nil, err
		}
		after, err := g.usage(ctx, renewals.Load())
		if err != nil {
			return nil, err
		}
		if due := int64(periods) * int64(g.Leases); after.renewals-before.renewals < due*9/10 {
			return nil, fmt.Errorf("%d renewals and not %d", after.renewals-before.renewals, due)
		}
		bytes, err := g.state(ctx, k)
		return measure.Reading{
			measure.Operations: float64(after.renewals - before.renewals),
			client:             before.perSecond(after.client-before.client, after),
			server:             before.perSecond(after.redis-before.redis, after),
			packets:            float64(after.packets-before.packets) / after.at.Sub(before.at).Seconds(),
			state:              bytes,
		}, err
	}
}

// state releases all leases, and is what each had for its renewal before.
func (g *Group) state(ctx context.Context, k keeper) (float64, error) {
	own, err := k.bytes()
	if err != nil {
		return 0, err
	}
	kept := used()
	if err := g.release(ctx, k); err != nil {
		return 0, err
	}
	bare := used()
	runtime.KeepAlive(k) // what is left of each lease is no renewal state
	return float64(own) + (kept-bare)/float64(g.Leases), nil
}
