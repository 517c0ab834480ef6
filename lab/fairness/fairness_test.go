// Package fairness lets many waiters of several processes take one lock in turn for a
// while, and checks that there is one holder at a time, that all waiters have the same
// number of turns, and that no waiter is passed over. A killed process loses only its own
// turns.
//
//	test ──▶ process: waiter, waiter, …  ──▶ issuer's server
//	     ◀── turns: asked, got, done     ◀──
//
// All processes are this test binary, started again.
package fairness_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/subprocess"
	"github.com/fencepost/fencepost/internal/test/leaktest"
)

const (
	// envFull selects the full size, and its duration. Then waits are also checked in
	// time, and not only in turns.
	envFull = "FENCEPOST_FAIRNESS"
	// role is the role of a process of waiters.
	role = "waiters"

	resource = "account/42"
)

func TestMain(m *testing.M) {
	subprocess.Serve(map[string]func(*subprocess.Parent) error{role: takeTurns})
	leaktest.Main(m)
}

// work makes turns long compared with occasional delays of the machine.
const work = 10 * time.Millisecond

// size is the number of waiters and the duration.
type size struct {
	waiters int
	lasts   time.Duration
	full    bool
}

func sizeOf(t *testing.T) size {
	t.Helper()
	text := os.Getenv(envFull)
	if text == "" {
		return size{waiters: 16, lasts: 2 * time.Second}
	}
	lasts, err := time.ParseDuration(text)
	require.NoError(t, err)
	return size{waiters: 64, lasts: lasts, full: true}
}

// hazard L7
func TestStressWaitersHaveTheirTurnsInTurn(t *testing.T) {
	for name := range issuers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, size := newOrder(t, name), sizeOf(t)
			o.TTL, o.Work = time.Minute, work // no process dies: no lease must expire
			// Processes have different sizes: a lock that serves processes in turn serves
			// the waiters of a small process more often.
			n := size.waiters / 16
			s, all := inTurn(t, o, size, size.waiters, func(o order) (*score, []string) {
				s := compete(t, o, []int{n, 3 * n, 4 * n, 8 * n}, size.lasts)
				return s, s.waiters(func(string) bool { return true })
			})
			if size.full {
				require.LessOrEqual(t, s.longest(all), 2*s.fair())
			}
		})
	}
}

// hazard L7
func TestStressAKilledProcessLosesItsOwnTurnsOnly(t *testing.T) {
	for name := range issuers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, size := newOrder(t, name), sizeOf(t)
			o.TTL, o.Work = 500*time.Millisecond, work
			inTurn(t, o, size, size.waiters/2, func(o order) (*score, []string) {
				f := &field{T: t, order: o}
				for range 4 {
					f.enter(size.waiters / 4)
				}
				for end := time.Now().Add(size.lasts); time.Now().Before(end); {
					time.Sleep(time.Second/2 + rand.N(time.Second))
					f.replace(2, size.waiters/4) // the first two stay
				}
				f.await()
				s := f.stop()
				t.Logf("%d processes killed", f.started-4)
				return s, s.waiters(func(p string) bool { return p == "process 0" || p == "process 1" })
			})
		})
	}
}

// hazard L7
func TestStressPollingWaitersAreServedByChance(t *testing.T) {
	t.Parallel()
	o := newOrder(t, "redistoken")
	o.TTL, o.Work, o.Polls = time.Minute, 2*time.Millisecond, true
	s := compete(t, o, []int{1, 3, 4, 8}, 0)
	all := s.waiters(func(string) bool { return true })
	t.Logf("polling: %s", s.about(all))
	require.Less(t, s.jain(all), 0.99, "waiters that poll must be served by chance")
	require.Greater(t, s.passedOver(all), 2*len(all))
	require.Zero(t, s.overlaps(), "it is a lock nevertheless")
}

// inTurn requires that this many waiters of a run have their turns in turn. A process
// that is stopped requests its next turn late, and its leases and its places in the queue
// expire. So a run that was unfair while a process was late by more than a turn has
// proven nothing, and is repeated with turns and leases twice as long.
func inTurn(t *testing.T, o order, size size, waiters int, run func(order) (*score, []string)) (*score, []string) {
	t.Helper()
	for ; ; o.TTL, o.Work = 2*o.TTL, 2*o.Work {
		s, of := run(o)
		t.Logf("%s, turns of %v, timers late by %v at most: %s", o.Issuer, o.Work, s.late(), s.about(of))
		require.Len(t, of, waiters)
		require.Zero(t, s.overlaps(), "two holders at a time")
		require.Zero(t, s.falls())
		jain, passed := s.jain(of), s.passedOver(of)
		isFair := jain >= 0.99 && passed <= 2*size.waiters
		if s.late() >= o.TTL || !isFair && s.late() > o.Work {
			continue
		}
		require.GreaterOrEqual(t, jain, 0.99)
		require.LessOrEqual(t, passed, 2*size.waiters)
		return s, of
	}
}

// field is the processes that compete for a lock, and their turns.
type field struct {
	*testing.T
	order   order
	reading sync.WaitGroup
	started int // processes so far
	waiters int // waiters now

	mu    sync.Mutex
	live  []*subprocess.Process[turn]
	turns []turn
	errs  []error
}

// enter starts a process with that many waiters, and returns when it is ready. Its
// messages are recorded from then on.
func (f *field) enter(waiters int) {
	f.Helper()
	o := f.order
	o.Waiters, o.Process = waiters, fmt.Sprintf("process %d", f.started)
	f.started++
	f.waiters += waiters
	c, err := subprocess.Self(o.Process, role)
	require.NoError(f, err)
	p, _, err := subprocess.Open[turn](f.Context(), c, o)
	require.NoError(f, err)
	f.Cleanup(p.Kill)
	f.mu.Lock()
	f.live = append(f.live, p)
	f.mu.Unlock()
	f.reading.Go(func() {
		err := p.Listen(f.record)
		f.mu.Lock()
		defer f.mu.Unlock()
		if err != nil && slices.Contains(f.live, p) { // it was not killed
			f.errs = append(f.errs, err)
		}
	})
}

func (f *field) record(t turn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.turns = append(f.turns, t)
	if t.Failure != "" {
		f.errs = append(f.errs, fmt.Errorf("%s: %s", t.Waiter, t.Failure))
	}
}

// replace kills a process, and starts another of the given size in its place.
func (f *field) replace(place, waiters int) {
	f.Helper()
	killed := f.live[place]
	f.mu.Lock()
	f.live = slices.Delete(f.live, place, place+1)
	f.mu.Unlock()
	killed.Kill()
	f.waiters -= waiters
	f.enter(waiters)
}

// enough is how many turns of each waiter a score needs: with few turns, one more or less
// looks unfair.
const enough = 20

// await returns when each waiter has had a turn, and there were enough turns after that,
// however slow the machine is.
func (f *field) await() {
	f.Helper()
	require.Eventually(f, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		last, seen := 0, map[string]bool{}
		for i, t := range f.turns {
			if t.Got > 0 && !seen[t.Waiter] {
				last, seen[t.Waiter] = i, true
			}
		}
		return len(seen) >= f.waiters && len(f.turns)-last >= 2*enough*f.waiters // a turn has two messages
	}, 5*time.Minute, 20*time.Millisecond)
}

// stop ends the processes and returns the score of their turns.
func (f *field) stop() *score {
	f.Helper()
	for _, p := range f.live {
		p.CloseInput()
	}
	f.reading.Wait()
	require.Empty(f, f.errs)
	return newScore(f.turns, f.waiters)
}

// compete runs waiters in processes of these sizes.
func compete(t *testing.T, o order, sizes []int, lasts time.Duration) *score {
	t.Helper()
	f := &field{T: t, order: o}
	for _, waiters := range sizes {
		f.enter(waiters)
	}
	time.Sleep(lasts)
	f.await()
	return f.stop()
}
