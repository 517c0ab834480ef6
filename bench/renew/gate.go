package renew

import (
	"context"
	"sync"
	"time"

	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
)

// workers is how many ask at once where nothing is measured.
const workers = 16

// gate is an issuer that lets no grant through before all are there, and then all
// at once and with the same end: they fall due in one moment.
type gate struct {
	*redistoken.Issuer
	room    chan struct{} // for those who ask at once
	granted sync.WaitGroup
	opened  chan struct{}

	mu    sync.Mutex
	until time.Time // the earliest
}

func newGate(iss *redistoken.Issuer, grants int) *gate {
	g := &gate{Issuer: iss, room: make(chan struct{}, workers), opened: make(chan struct{})}
	g.granted.Add(grants)
	return g
}

// Acquire implements [token.Issuer].
func (g *gate) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	g.room <- struct{}{}
	grant, err := g.Issuer.Acquire(ctx, resource, holder, ttl)
	<-g.room
	g.note(grant, err)
	<-g.opened
	grant.Until = g.until
	return grant, err
}

func (g *gate) note(grant token.Grant, err error) {
	defer g.granted.Done()
	g.mu.Lock()
	defer g.mu.Unlock()
	if err == nil && (g.until.IsZero() || grant.Until.Before(g.until)) {
		g.until = grant.Until
	}
}

// open waits for all grants and returns when the first renewal falls due, and when
// all leases end.
func (g *gate) open() (due, until time.Time) {
	g.granted.Wait()
	now := time.Now()
	close(g.opened)
	return now.Add(g.until.Sub(now) / 3), g.until
}
