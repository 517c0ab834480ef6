package simulations

import (
	"sync"
	"time"
)

// clock tells each time once, and later ones later, where the machine's clock is
// coarse, and in a synctest bubble, whose clock stands still while anybody
// works: what came first must not look as if it came at the same time.
type clock struct {
	now func() time.Duration

	mu   sync.Mutex
	last time.Duration
}

func (c *clock) tick() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = max(c.last+1, c.now())
	return c.last
}
