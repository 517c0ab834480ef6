// Package waiting plays schedules of waiters on real servers. A seed decides which client
// waits, gives up, renews, dies, freezes or is cut off, and when. The witness of each
// resource then reports whether two clients held it at the same time, whether a number
// fell, whether a waiter was forgotten, and what was left.
package waiting_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/netfault"
	"github.com/fencepost/fencepost/internal/test/leaktest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token"
)

const (
	// envSchedules is the number of schedules for each issuer. envSeed is the seed of the
	// first schedule; each further schedule has the next seed.
	envSchedules = "FENCEPOST_WAITING"
	envSeed      = "FENCEPOST_WAITING_SEED"
	// hang is when something that hangs fails.
	hang = 2 * time.Minute
	// long is the TTL of waiters that must not miss a hand-off: a waiter that is woken by
	// the end of such a lease has waited for longer than hang.
	long = 7 * time.Minute
)

func TestMain(m *testing.M) { leaktest.Main(m) }

var systems = map[string]func(*testing.T) *system{
	"redistoken": onRedis, "pgtoken": onPostgres, "memtoken": inMemory,
}

// hazard R13
func TestStressSchedulesOfWaiters(t *testing.T) {
	schedules := testenv.Rounds(t, envSchedules, 60)
	first := uint64(testenv.Rounds(t, envSeed, int(time.Now().Unix())))
	for name, start := range systems {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			playAll(t, start(t), first, schedules)
		})
	}
}

// playAll plays schedules on a few players concurrently.
func playAll(t *testing.T, s *system, first uint64, schedules int) {
	t.Helper()
	const players = 2
	var next atomic.Uint64
	var group sync.WaitGroup
	var mu sync.Mutex
	var faults []string
	all := make([]*player, players)
	run := fmt.Sprintf("w%d-%d", os.Getpid(), time.Now().UnixNano()%1e6)
	for n := range players {
		p := &player{T: t, system: s, name: run + "-" + strconv.Itoa(n)}
		all[n] = p
		group.Go(func() {
			defer func() {
				for _, c := range p.clients {
					c.close()
				}
			}()
			for i := next.Add(1) - 1; i < uint64(schedules); i = next.Add(1) - 1 {
				plan := newPlan(first + i)
				wrong, late := p.play(plan)
				if len(wrong) == 0 && len(late) > 0 {
					t.Logf("%s is played again, since %q", plan.String(), late[0])
					wrong, late = p.play(plan)
				}
				if wrong = append(wrong, late...); len(wrong) > 0 {
					mu.Lock()
					faults = append(faults, fmt.Sprintf("%s: %q", plan.String(), wrong))
					mu.Unlock()
				}
			}
		})
	}
	group.Wait()
	grants, slowest := 0, time.Duration(0)
	for _, p := range all {
		grants, slowest = grants+p.grants, max(slowest, p.slowest)
	}
	t.Logf("%d schedules from seed %d: %d grants; the longest wait in a calm one took %v", schedules, first, grants, slowest.Round(time.Millisecond))
	for _, f := range faults {
		t.Error(f)
	}
	require.NoError(t, eventually(func() (bool, error) { n, err := s.sessions(run); return n == 0, err }), "connections are left")
}

// kind is the subject of a schedule.
type kind int

const (
	calm   kind = iota // waiters give up, freeze and lose notifications; their leases are long
	broken             // leases are short; clients die and are cut off
	order              // waiters join one by one, and must be served in that order
	sets               // HoldAll, HoldAny and re-entry through a Locker
)

func (k kind) String() string { return [...]string{"calm", "broken", "order", "sets"}[k] }

// plan is a schedule. It depends only on the seed.
type plan struct {
	seed      uint64
	kind      kind
	ttl       time.Duration
	resources int
	actors    [][]step // the first client's, the second's, …, the first's again
	faults    []fault
}

// step is one turn of an actor.
type step struct {
	after    time.Duration // it begins
	resource int
	try      bool          // Acquire in place of Wait
	timeout  time.Duration // of the wait; zero: none
	hold     time.Duration
	renew    bool // renew during the hold
	again    bool // the holder acquires again during the hold
	startle  bool // another waiter gives up at the moment of the release
	abandon  bool // no release
}

// fault is a fault of one client.
type fault struct {
	after              time.Duration
	client             int
	dropsNotifications bool
	die                bool // cut off until the end
	cut                bool
	way                netfault.Way // a freeze, if neither of these
	lasts              time.Duration
}

const clients = 4

func newPlan(seed uint64) plan {
	r := rand.New(rand.NewPCG(seed, 0))
	p := plan{seed: seed, kind: [...]kind{calm, calm, calm, broken, broken, order, sets, sets}[r.IntN(8)], ttl: long}
	p.resources = 1 + r.IntN(3)
	actors, steps := 2+r.IntN(9), 1+r.IntN(4)
	switch {
	case p.kind == order:
		p.resources, steps = 1, 1
		actors = 3 + r.IntN(6)
	case p.kind == broken:
		p.ttl = time.Duration(20+r.IntN(400)) * time.Millisecond
	case r.IntN(25) == 0: // a crowd
		actors, steps, p.resources = 64+r.IntN(32), 1, 1
	}
	for range actors {
		p.actors = append(p.actors, p.steps(r, steps))
	}
	if p.kind != order {
		for range r.IntN(4) {
			p.faults = append(p.faults, p.fault(r))
		}
	}
	return p
}

func (p *plan) steps(r *rand.Rand, n int) (steps []step) {
	one := func(in int) bool { return r.IntN(in) == 0 }
	short := func(most time.Duration) time.Duration { return time.Duration(r.Int64N(int64(most))) }
	for range n {
		s := step{after: short(2 * time.Millisecond), resource: r.IntN(p.resources), try: one(8), hold: short(3 * time.Millisecond)}
		if one(3) && (!s.try || p.kind == broken) { // an abandoned Acquire may take effect nevertheless
			s.timeout = short(12*time.Millisecond) + 1
		}
		s.renew, s.again, s.startle = one(5), one(10), one(2)
		if p.kind == broken {
			s.abandon = one(6)
			if one(5) {
				s.hold = short(2 * p.ttl)
			}
		}
		steps = append(steps, s)
	}
	return steps
}

func (p *plan) fault(r *rand.Rand) fault {
	f := fault{after: time.Duration(r.IntN(15)) * time.Millisecond, client: r.IntN(clients), lasts: time.Duration(r.IntN(60)) * time.Millisecond}
	f.way = [...]netfault.Way{netfault.ToServer, netfault.ToClient, netfault.ToServer | netfault.ToClient}[r.IntN(3)]
	n := 2
	switch p.kind {
	case broken:
		n = 4
		f.lasts *= 4
	case sets: // a release during a freeze may arrive before the grant that it undoes
		n = 1
	}
	switch r.IntN(n) {
	case 0:
		f.dropsNotifications = true
	case 2:
		f.cut = true
	case 3:
		f.die = true
	}
	return f
}

func (p *plan) String() string {
	return fmt.Sprintf("seed %d: %s, ttl %v, %d resources, %d actors, faults %+v", p.seed, p.kind, p.ttl, p.resources, len(p.actors), p.faults)
}

// witness records the grants of one resource as their holders see them.
type witness struct {
	mu       sync.Mutex
	resource string
	free     bool // leases may end early: only numbers are checked
	numbers  map[int64]bool
	holder   string
	until    time.Time
	last     int64
	grants   int
	faults   []string
	late     []string             // waits that took too long, or were out of turn
	waiting  []context.CancelFunc // cancels of waiters, for startle
}

// highest returns the highest number that was granted before the next request is sent.
func (w *witness) highest() (before int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// enter records a grant to a caller that called after number before. A grant that has
// expired grants nothing, and its holder can detect that.
//
// A lease that ends early may end before its holder has called enter, and the next holder
// may be recorded first. Two rules hold in that case too: a number is granted once, and
// it is higher than all numbers that were recorded when its holder sent its request.
func (w *witness) enter(g token.Grant, before int64) (in bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if !now.Before(g.Until) {
		return false
	}
	if !w.free && w.holder != "" && now.Before(w.until) {
		w.fault("%s was granted while %s had %s left", g.Token, w.holder, w.until.Sub(now))
	}
	if !w.free {
		before = w.last
	}
	if g.Token.Number <= before {
		w.fault("%s was granted after number %d", g.Token, before)
	}
	if w.numbers[g.Token.Number] {
		w.fault("%s was granted twice", g.Token)
	}
	if w.numbers == nil {
		w.numbers = map[int64]bool{}
	}
	w.numbers[g.Token.Number] = true
	w.holder, w.until, w.last = g.Token.Holder, g.Until, max(w.last, g.Token.Number)
	w.grants++
	return true
}

// extend records a renewal, or a repeated grant to the holder.
func (w *witness) extend(tok token.Token, until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	switch {
	case !now.Before(until):
	case w.holder == tok.Holder:
		w.until, w.last = until, max(w.last, tok.Number)
	case !w.free:
		w.fault("%s was renewed until %s from now after %s had it", tok, until.Sub(now), w.holder)
	}
}

// leave is called before the resource is released.
func (w *witness) leave(holder string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.holder == holder {
		w.holder = ""
	}
}

func (w *witness) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault(format, args...)
}

// slow records a fault that can also be caused by a machine that stops for long.
func (w *witness) slow(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.late = append(w.late, fmt.Sprintf(w.resource+": "+format, args...))
}

func (w *witness) fault(format string, args ...any) {
	w.faults = append(w.faults, fmt.Sprintf(w.resource+": "+format, args...))
}

// waits registers cancel for startle, until done is called.
func (w *witness) waits(cancel context.CancelFunc) (done func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	place := len(w.waiting)
	w.waiting = append(w.waiting, cancel)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.waiting[place] = nil
	}
}

// startle makes the first waiter give up, at the same time as another event.
func (w *witness) startle() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, cancel := range w.waiting {
		if cancel != nil {
			go cancel()
			return
		}
	}
}
