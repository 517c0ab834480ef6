package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

const (
	holding   = time.Millisecond     // how long a waiter has the lock
	elsewhere = 3 * time.Millisecond // how long it works without it
)

var handoverContests = []contest{
	{
		name: "Redis lock", server: redisServer, settings: waiters(8, 32, 128), baseline: contender{"a PING", roundTrip(ping)},
		others: []contender{
			{"one process", crowd(leased(openRedistoken), false)},
			{"a process each", crowd(leased(openRedistoken), true)},
			{"redislock", crowd(openRedislock, false)},
			{"redsync", crowd(openRedsync, false)},
			{"rueidislock, a process each", crowd(openRueidislock, true)},
		},
	},
	{
		name: "PostgreSQL lock", server: postgresServer, settings: waiters(8), baseline: contender{"a durable update", roundTrip(writes(update))},
		others: []contender{
			{"pgtoken, one process", crowd(leased(openPgtoken(false)), false)},
			{"pgtoken, a process each", crowd(leased(openPgtoken(false)), true)},
		},
	},
}

// waiters returns settings whose blocks are long enough for each waiter to have its turn a
// few times.
func waiters(counts ...int) (all []setting) {
	for _, n := range counts {
		length := 400*time.Millisecond + time.Duration(n)*10*time.Millisecond
		all = append(all, setting{n, 1, linked, length, []column{handOver, packets, fairness}})
	}
	return all
}

func ping(_ context.Context, c *client) op {
	client := c.redis()
	return func(ctx context.Context, _ int) error { return client.Ping(ctx).Err() }
}

// roundTrip measures a request that does what the simplest lock needs from the server. It
// pauses before each request as long as a holder holds, since a hand-over also happens on
// a machine that was idle.
func roundTrip(prepare setup) opener {
	return func(ctx context.Context, c *client) block {
		request := prepare(ctx, c)
		return func(ctx context.Context, d time.Duration) (reading, error) {
			var times []float64
			for end := time.Now().Add(d / 2); len(times) == 0 || time.Now().Before(end); {
				time.Sleep(holding)
				start := time.Now()
				if err := request(ctx, 0); err != nil {
					return nil, err
				}
				times = append(times, time.Since(start).Seconds())
			}
			return reading{handOver: median(times) * 1e6}, nil
		}
	}
}

// resources numbers the resources. Each block has its own: what a library leaves at the
// end of a block must not delay the next one.
var resources atomic.Int64

// crowd lets waiters compete for a lock, in one process or with a process for each.
func crowd(open library, processEach bool) opener {
	return func(ctx context.Context, c *client) block {
		if processEach {
			c.clients = c.workers
		}
		programs := make([]acquire, c.clients)
		for i := range programs {
			programs[i] = open(ctx, c)
		}
		return func(ctx context.Context, d time.Duration) (reading, error) {
			resource := fmt.Sprintf("branch/%d", resources.Add(1))
			b := &competition{sent: &c.sent, from: time.Now().Add(d / 5), acquired: make([]float64, c.workers)}
			// The context has no deadline: rueidislock limits its key to that, in whole
			// milliseconds, and Redis then ends the lock before the holder's context ends.
			open, over := context.WithCancel(ctx)
			defer over()
			time.AfterFunc(d, func() {
				for !b.counts.Load() && open.Err() == nil { // one acquisition is counted, however late
					time.Sleep(time.Millisecond)
				}
				over()
			})
			_, err := c.repeat(ctx, d, []op{func(_ context.Context, waiter int) error {
				return b.turn(open, waiter, func() (unlock, error) { return programs[waiter%len(programs)](open, resource, true) })
			}})
			if err != nil {
				return nil, err
			}
			return b.read(d), nil
		}
	}
}

// competition is a block whose waiters compete for one lock. It is measured after their
// queue has settled.
type competition struct {
	sent   *atomic.Int64
	from   time.Time
	counts atomic.Bool // an acquisition has been counted

	held      sync.Mutex // of the waiter that has the lock; it guards what follows
	released  time.Time  // the last call of a release
	acquired  []float64  // how often each waiter had the lock
	handOvers []float64  // seconds, from the call of the release to the next waiter's grant
	opened    bool
	packets   [2]int64 // sent until the first acquisition, which is not counted, and until the last
}

// turn acquires the lock and releases it. It returns when open ends.
func (b *competition) turn(open context.Context, waiter int, acquire func() (unlock, error)) error {
	asked := time.Now()
	release, err := acquire()
	granted := time.Now()
	switch {
	case err != nil && open.Err() != nil:
		return nil
	case err != nil:
		return err
	case !b.held.TryLock():
		return errors.New("two waiters hold it at the same time")
	case granted.Before(b.from) || open.Err() != nil:
	case !b.opened:
		b.opened, b.packets[0] = true, b.sent.Load()
	default:
		b.packets[1] = b.sent.Load()
		b.acquired[waiter]++
		b.counts.Store(true)
		if asked.Before(b.released) {
			b.handOvers = append(b.handOvers, granted.Sub(b.released).Seconds())
		}
	}
	time.Sleep(holding)
	b.released = time.Now()
	b.held.Unlock()
	if err := release(context.WithoutCancel(open)); err != nil {
		return err
	}
	time.Sleep(elsewhere)
	return nil
}

// read returns the figures. If the waiter that released the lock was always the next to
// have it, the hand-over is as long as the block.
func (b *competition) read(d time.Duration) reading {
	var sum, squares float64
	for _, n := range b.acquired {
		sum, squares = sum+n, squares+n*n
	}
	if b.handOvers == nil {
		b.handOvers = []float64{d.Seconds()}
	}
	return reading{
		handOver: median(b.handOvers) * 1e6, packets: float64(b.packets[1]-b.packets[0]) / sum,
		fairness: sum * sum / (float64(len(b.acquired)) * squares), // Jain's
	}
}
