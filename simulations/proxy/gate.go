package proxy

import (
	"context"
	"sync"
	"time"
)

// gate is where everything of one way has to pass.
type gate struct {
	mu      sync.Mutex
	shut    bool
	delay   time.Duration
	changed chan struct{} // closed at the next change
}

func newGate() *gate { return &gate{changed: make(chan struct{})} }

func (g *gate) set(change func(*gate)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change(g)
	close(g.changed)
	g.changed = make(chan struct{})
}

// pass waits until what was sent at the given time may go on. It reports false
// where ctx ends first.
func (g *gate) pass(ctx context.Context, sent time.Time) bool {
	for ctx.Err() == nil {
		shut, left, changed := g.left(sent)
		if !shut && left <= 0 {
			return true
		}
		g.wait(ctx, shut, left, changed)
	}
	return false
}

func (g *gate) left(sent time.Time) (shut bool, left time.Duration, changed <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shut, time.Until(sent.Add(g.delay)), g.changed
}

func (g *gate) wait(ctx context.Context, shut bool, left time.Duration, changed <-chan struct{}) {
	var due <-chan time.Time
	if !shut {
		timer := time.NewTimer(left)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-due:
	case <-changed:
	case <-ctx.Done():
	}
}
