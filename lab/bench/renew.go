package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
)

// keepingAlive compares the cost of keeping many leases alive: with a goroutine and a timer
// for each lease, as most libraries do, and with a Locker, which has one timer and sends
// batches. Each lease is renewed once in the time of a block.
func keepingAlive(leases int) contest {
	return contest{
		name: "leases kept alive", server: redisServer, prepared: true,
		settings: []setting{{leases, 1, direct, 5 * time.Second, []column{clientCPU, serverCPU, packets, memory}}},
		baseline: contender{"a goroutine and a timer for each", keptAlive(oneByOne)},
		others:   []contender{{"one Locker", keptAlive(oneLocker)}},
	}
}

// keeper acquires a lease and renews it three times per TTL until it is released. A lease
// that was not renewed in time is an error of its release.
type keeper func(ctx context.Context, resource string) (unlock, error)

// keptAlive acquires the leases evenly over the time of a block, so that they are renewed
// as evenly, and measures until as many have been renewed.
func keptAlive(open func(iss token.Issuer, ttl time.Duration, renewed func()) keeper) opener {
	return func(ctx context.Context, c *client) block {
		iss := openRedistoken(ctx, c)
		return func(ctx context.Context, d time.Duration) (_ reading, err error) {
			var renewals atomic.Int64
			keep, start := open(iss, 3*d, func() { renewals.Add(1) }), time.Now()
			leases, n := make([]unlock, c.workers), float64(c.workers)
			for i := range leases {
				time.Sleep(time.Until(start.Add(d * time.Duration(i) / time.Duration(c.workers))))
				if leases[i], err = keep(context.WithoutCancel(ctx), fmt.Sprintf("lease/%d", i)); err != nil {
					return nil, err
				}
			}
			time.Sleep(time.Until(start.Add(d)))
			before, own, server, sent := renewals.Load(), cpuOf(os.Getpid()), c.server.cpu(), c.sent.Load()
			for renewals.Load() < before+int64(c.workers) {
				if time.Sleep(10 * time.Millisecond); ctx.Err() != nil || time.Since(start) > 20*d {
					return nil, fmt.Errorf("%d of %d leases were renewed", renewals.Load()-before, c.workers)
				}
			}
			sent, own, server = c.sent.Load()-sent, cpuOf(os.Getpid())-own, c.server.cpu()-server
			used := memoryInUse()
			for i, release := range leases { // one after the other: more connections would have more buffers
				if err := release(ctx); err != nil {
					return nil, err
				}
				leases[i] = nil
			}
			return reading{
				clientCPU: own.Seconds() * 1e6 / n, serverCPU: server.Seconds() * 1e6 / n, packets: float64(sent) / n,
				memory: (used - memoryInUse()) / n,
			}, nil
		}
	}
}

// memoryInUse returns the size of the heap and the stacks without garbage. The second
// collection frees what finalizers and pools refer to.
func memoryInUse() float64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc + stats.StackInuse)
}

func oneLocker(iss token.Issuer, ttl time.Duration, renewed func()) keeper {
	locker := &lock.Locker{
		Issuer: iss, Name: "bench", TTL: ttl, NoWait: true, DangerouslyWithoutClaim: true,
		Hooks: lock.Hooks{Renewed: func(context.Context, token.Token, time.Duration) { renewed() }},
	}
	return func(ctx context.Context, resource string) (unlock, error) {
		lease, err := locker.Acquire(ctx, resource)
		if err != nil {
			return nil, err
		}
		return lease.Release, nil
	}
}

func oneByOne(iss token.Issuer, ttl time.Duration, renewed func()) keeper {
	return func(ctx context.Context, resource string) (unlock, error) {
		grant, err := iss.Acquire(ctx, resource, newHolder(), ttl)
		if err != nil {
			return nil, err
		}
		stop, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			ticker := time.NewTicker(ttl / 3)
			defer ticker.Stop()
			for {
				select {
				case <-stop:
					ended <- nil
					return
				case <-ticker.C:
				}
				if _, err := iss.Renew(ctx, grant.Token, ttl); err != nil {
					ended <- err
					return
				}
				renewed()
			}
		}()
		return func(ctx context.Context) error {
			close(stop)
			if err := <-ended; err != nil {
				return err
			}
			return iss.Release(ctx, grant.Token)
		}, nil
	}
}
