package redistoken_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
)

// hazard R13
func TestOneHolderAtATimeUnderRisingNumbersWhateverBreaks(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	var h history
	var faults faults
	faults.delay = 400 * time.Millisecond
	faults.late.Store(20)
	faults.lost.Store(40)
	faults.doubled.Store(40)
	ctx, stop := context.WithTimeout(t.Context(), 6*time.Second)
	defer stop()

	var all, crashes sync.WaitGroup
	var counts struct{ crashes, givenUp, kills atomic.Int64 }
	for p := range 4 {
		all.Go(func() {
			for life := 0; ctx.Err() == nil; life++ {
				iss := &redistoken.Issuer{Client: faults.client(t, server.Addr())}
				died, die := context.WithTimeout(ctx, time.Second+rand.N(2*time.Second))
				var waiters sync.WaitGroup
				for w := range 4 {
					waiters.Go(func() {
						for n := 0; died.Err() == nil; n++ {
							patience, cancel := context.WithTimeout(died, 20*time.Millisecond+rand.N(2*time.Second))
							grant, err := iss.Wait(patience, resource, fmt.Sprintf("%d.%d.%d.%d", p, life, w, n), 300*time.Millisecond)
							cancel()
							if err != nil {
								counts.givenUp.Add(1)
								continue
							}
							h.granted(grant)
							time.Sleep(rand.N(3 * time.Millisecond))
							h.released(grant.Token)
							if died.Err() != nil {
								return // and give nothing back
							}
							_ = iss.Release(ctx, grant.Token)
						}
					})
				}
				<-died.Done()
				die()
				_ = iss.Client.Close() // hard: nobody can leave the line any more
				crashes.Go(func() { waiters.Wait(); _ = iss.Close() })
				counts.crashes.Add(1)
			}
		})
	}
	all.Go(func() {
		for sleep(ctx, 50*time.Millisecond) {
			killed, _ := server.Client().ClientKillByFilter(ctx, "TYPE", "pubsub").Result()
			counts.kills.Add(killed)
		}
	})
	all.Wait()
	crashes.Wait()
	t.Logf("%d grants, %d crashes, %d gave up, %d subscriptions killed", h.grants, counts.crashes.Load(),
		counts.givenUp.Load(), counts.kills.Load())
	require.Greater(t, h.grants, 100)
	require.Empty(t, h.overlaps)
	require.Empty(t, h.falls)
	emptied(t, server.Client())
}

// emptied waits until the lock is free and nobody is left in line: the first
// to come by clears away who has died there. holders give it back.
func emptied(t *testing.T, client *redis.Client, holders ...string) {
	t.Helper()
	iss := closing(t, &redistoken.Issuer{Client: client})
	for _, holder := range holders {
		require.NoError(t, iss.Release(t.Context(), token.Token{Resource: resource, Number: 1, Holder: holder}))
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		grant, err := iss.Acquire(t.Context(), resource, "the last", long)
		if assert.NoError(c, err) {
			assert.NoError(c, iss.Release(t.Context(), grant.Token))
		}
		assert.Zero(c, client.Exists(t.Context(), lineKey("fencepost", resource), lockKey("fencepost", resource)).Val())
	}, time.Minute, 20*time.Millisecond)
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// hazard L7
func TestWaitersAreServedEquallyOftenWhereverTheyAre(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	var h history
	served := &tally{left: map[int]bool{}}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var all sync.WaitGroup
	for p, waiters := range []int{1, 2, 1, 8} {
		iss := closing(t, &redistoken.Issuer{Client: server.Client()})
		for w := range waiters {
			waiter := served.add()
			all.Go(func() {
				for round := 0; ; round++ {
					grant, err := iss.Wait(ctx, resource, fmt.Sprintf("%d.%d.%d", p, w, round), long)
					if err != nil {
						assert.ErrorIs(t, err, context.Canceled)
						return
					}
					h.granted(grant)
					if served.grant(waiter) == 60 {
						stop()
					}
					h.released(grant.Token)
					_ = iss.Release(t.Context(), grant.Token)
				}
			})
		}
	}
	all.Wait()
	require.GreaterOrEqual(t, served.jain(), 0.99, "Jain's index of %v", served.counts)
	require.Empty(t, h.overlaps)
	require.Empty(t, h.falls)
	emptied(t, server.Client())
}

// tally counts grants from when all who wait have had their first.
type tally struct {
	mu     sync.Mutex
	left   map[int]bool // who has not
	counts []int
}

func (s *tally) add() (waiter int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left[len(s.counts)] = true
	s.counts = append(s.counts, 0)
	return len(s.counts) - 1
}

func (s *tally) grant(waiter int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.left, waiter)
	if len(s.left) == 0 {
		s.counts[waiter]++
	}
	return s.counts[waiter]
}

func (s *tally) jain() float64 {
	var sum, squares float64
	for _, n := range s.counts {
		sum += float64(n)
		squares += float64(n * n)
	}
	return sum * sum / (float64(len(s.counts)) * squares)
}
