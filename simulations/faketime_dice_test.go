package simulations_test

import (
	"math/rand/v2"
	"sync"
	"time"
)

// dice are what one goroutine draws, so that nobody else's draws change them.
// Durations are drawn to the nanosecond, so that no two things happen at one
// instant: what does is run in an order that no seed decides.
type dice struct {
	mu     sync.Mutex // between goroutines that follow one another
	random *rand.Rand
}

func newDice(seed, salt uint64) *dice { return &dice{random: rand.New(rand.NewPCG(seed, salt))} }

// upTo draws a duration that is not above limit.
func (d *dice) upTo(limit time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return 1 + time.Duration(d.random.Int64N(int64(limit)))
}

// chance is true n times of a hundred.
func (d *dice) chance(n int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.random.IntN(100) < n
}
