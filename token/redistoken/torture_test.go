package redistoken_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
)

// hazard R13
func TestOneHolderAtATimeUnderRisingNumbersWhateverBreaks(t *testing.T) {
	t.Parallel()
	breakEverything(t, 3*time.Second)
}

// hazard R13
func TestStressOneHolderAtATimeUnderRisingNumbersWhateverBreaks(t *testing.T) {
	t.Parallel()
	breakEverything(t, 20*time.Second)
}

// breakEverything runs for the given time, and longer on a machine that is too slow for a
// hundred grants in that time.
func breakEverything(t *testing.T, lasts time.Duration) {
	t.Helper()
	server := testenv.OwnRedis(t)
	var h history
	var faults faults
	faults.delay = 400 * time.Millisecond
	faults.late.Store(20)
	faults.lost.Store(40)
	faults.doubled.Store(40)
	ctx, stop := context.WithTimeout(t.Context(), testTimeout)
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
							attempt, cancel := context.WithTimeout(died, 20*time.Millisecond+rand.N(2*time.Second))
							grant, err := iss.Wait(attempt, resource, fmt.Sprintf("%d.%d.%d.%d", p, life, w, n), 300*time.Millisecond)
							cancel()
							if err != nil {
								counts.givenUp.Add(1)
								continue
							}
							h.granted(grant)
							time.Sleep(rand.N(3 * time.Millisecond))
							h.released(grant.Token)
							if died.Err() != nil {
								return // without a release
							}
							_ = iss.Release(ctx, grant.Token)
						}
					})
				}
				<-died.Done()
				die()
				_ = iss.Client.Close() // no waiter can leave the queue any more
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
	time.Sleep(lasts)
	for h.count() <= 100 {
		require.True(t, sleep(ctx, 10*time.Millisecond), "%d grants", h.count())
	}
	stop()
	all.Wait()
	crashes.Wait()
	t.Logf("%d grants, %d crashes, %d gave up, %d subscriptions killed", h.grants, counts.crashes.Load(),
		counts.givenUp.Load(), counts.kills.Load())
	require.Greater(t, h.grants, 100)
	require.Empty(t, h.overlaps)
	require.Empty(t, h.falls)
	emptied(t, server.Client())
}

// emptied waits until the lock is free and the queue is empty: an Acquire removes the
// dead waiters. It first releases the lock of holders.
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
		assert.Zero(c, client.Exists(t.Context(), queueKey("fencepost", resource), lockKey("fencepost", resource)).Val())
	}, testTimeout, 20*time.Millisecond)
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
	processes, waiters := []int{1, 2, 1, 8}, 12
	served := &tally{had: map[int]bool{}, counts: make([]int, waiters)}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var all sync.WaitGroup
	var issuers []*redistoken.Issuer
	for range processes {
		issuers = append(issuers, closing(t, &redistoken.Issuer{Client: server.Client()}))
	}
	next := 0
	for p, here := range processes {
		iss := issuers[p]
		for w := range here {
			waiter := next
			next++
			all.Go(func() {
				for round := 0; ; round++ {
					grant, err := iss.Wait(ctx, resource, fmt.Sprintf("%d.%d.%d", p, w, round), long)
					if err != nil {
						assert.ErrorIs(t, err, context.Canceled)
						return
					}
					h.granted(grant)
					if served.grant(waiter) == 30 {
						stop()
					}
					allWait(ctx, server.Client(), issuers, waiters-1)
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

// tally counts grants from the time when every waiter has had its first.
type tally struct {
	mu     sync.Mutex
	had    map[int]bool // the waiters that have had a grant
	counts []int
}

func (s *tally) grant(waiter int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.had[waiter] = true; len(s.had) == len(s.counts) {
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

// faults are the faults of a client. Each happens once in so many messages; zero means
// never.
type faults struct {
	late, lost, doubled atomic.Int64
	delay               time.Duration // the longest
	held                atomic.Pointer[gate]
}

// gate blocks messages until it is open.
type gate struct {
	open chan struct{}
	once sync.Once
}

// hold blocks messages until the gate is opened.
func (f *faults) hold(t *testing.T) *gate {
	g := &gate{open: make(chan struct{})}
	f.held.Store(g)
	t.Cleanup(g.let)
	return g
}

func (g *gate) let() { g.once.Do(func() { close(g.open) }) }

// client returns a client of addr with the faults f. Its commands are sent normally; its
// subscriptions are slow and lose messages.
func (f *faults) client(t *testing.T, addr string) *redis.Client {
	t.Helper()
	client := wrapped(t, &redis.Options{Addr: addr, PoolSize: 32, MaxRetries: -1}, func(conn net.Conn) net.Conn {
		return &faultyConn{Conn: conn, faults: f}
	})
	client.AddHook(&doubling{faults: f})
	return client
}

func oneIn(n *atomic.Int64) bool {
	times := n.Load()
	return times > 0 && rand.N(times) == 0
}

// faultyConn is a connection that becomes unreliable with a subscription.
type faultyConn struct {
	net.Conn
	faults     *faults
	subscribed atomic.Bool
}

func (c *faultyConn) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("subscribe")) {
		c.subscribed.Store(true)
	}
	return c.Conn.Write(p)
}

func (c *faultyConn) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if err != nil || !c.subscribed.Load() || !bytes.Contains(p[:n], []byte("message")) {
			return n, err
		}
		if g := c.faults.held.Load(); g != nil {
			<-g.open
		}
		if oneIn(&c.faults.late) {
			time.Sleep(rand.N(c.faults.delay))
		}
		if !oneIn(&c.faults.lost) {
			return n, nil
		}
	}
}

// doubling sends a script a second time, later, as a client does that has lost the reply,
// or a network that has duplicated the request.
type doubling struct {
	hook
	faults *faults
	done   sync.WaitGroup
}

func (d *doubling) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" && oneIn(&d.faults.doubled) {
			args := cmd.Args()
			d.done.Go(func() {
				time.Sleep(rand.N(d.faults.delay))
				_ = next(context.WithoutCancel(ctx), redis.NewCmd(ctx, args...))
			})
		}
		return next(ctx, cmd)
	}
}

// history has the events that all holders of one resource observe, in the order in which
// they observe them.
type history struct {
	mu       sync.Mutex
	holder   token.Token
	until    time.Time
	last     int64
	grants   int
	overlaps []string
	falls    []string
}

// granted records a grant. A grant that has already expired is ignored: its holder
// detects that it was received too late.
func (h *history) granted(g token.Grant) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if !now.Before(g.Until) {
		return
	}
	if now.Before(h.until) {
		h.overlaps = append(h.overlaps, fmt.Sprintf("%s while %s had %s left", g.Token, h.holder, h.until.Sub(now)))
	}
	if g.Token.Number <= h.last {
		h.falls = append(h.falls, fmt.Sprintf("%s after %d", g.Token, h.last))
	}
	h.holder, h.until, h.last = g.Token, g.Until, max(h.last, g.Token.Number)
	h.grants++
}

func (h *history) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.grants
}

// released records that tok's holder is about to release, or to die.
func (h *history) released(tok token.Token) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.holder == tok {
		h.until = time.Time{}
	}
}
