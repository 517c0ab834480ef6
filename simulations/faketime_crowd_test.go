package simulations_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencepost/fencepost/internal/point"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

// crowd is who fights over a purse in fake time.
type crowd struct {
	seed   uint64
	names  string // a letter for each process
	rounds int
	issuer func(t *testing.T) (issuer func() token.Issuer)
	twin   bool
}

// inMemory is one issuer for all processes.
func inMemory(*testing.T) func() token.Issuer {
	var far memtoken.Issuer
	return func() token.Issuer { return &far }
}

// fight lets each of them wait, acquire, read, be paused perhaps, and write.
func (c crowd) fight(t *testing.T) (p *purse) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p = newPurse()
		ctx, issuer := t.Context(), c.issuer(t)
		if c.twin {
			ctx = point.Observe(ctx)
		}
		var processes sync.WaitGroup
		for _, name := range c.names {
			who := newProcess(string(name), issuer(), p.Recorder, c.seed)
			who.faults = 2
			processes.Go(func() {
				for range c.rounds {
					who.round(ctx, p)
				}
			})
		}
		processes.Wait()
		time.Sleep(time.Minute) // what is still on its way arrives
	})
	return p
}

func (p *process) round(ctx context.Context, purse *purse) {
	time.Sleep(p.work.upTo(100 * time.Millisecond))
	locker := token.Locker{Issuer: p, Name: p.name, TTL: 200 * time.Millisecond, Claim: purse.claim(p.name)}
	// What came of it is in the history.
	_ = locker.Hold(ctx, resource, func(ctx context.Context) error {
		seen := purse.read()
		time.Sleep(p.work.upTo(50 * time.Millisecond))
		if p.work.chance(25) {
			p.freeze(p.work.upTo(time.Second))
		}
		return purse.add(ctx, p.name, seen)
	})
}
