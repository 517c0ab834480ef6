package register_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencepost/fencepost/internal/lockstate"
	"github.com/fencepost/fencepost/internal/register"
	"github.com/fencepost/fencepost/token"
)

// The simulation runs processes, with several workers each, over one memory, in fake time.
// A seed draws the faults, and what each worker does. The back-off of the issuer is drawn
// elsewhere, so a seed that fails may need several runs to fail again.

// hazards L17, L18, L19, L20, L21
func TestSimulation(t *testing.T) { simulate(t, 0, 400) }

func TestStressSimulation(t *testing.T) { simulate(t, 400, 5_400) }

func simulate(t *testing.T, from, to uint64) {
	t.Helper()
	for seed := from; seed < to; seed++ {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(seed)
			w.run()
			if len(w.broken) > 0 {
				t.Fatalf("seed %d: %s\nfaults: %+v", seed, strings.Join(w.broken, "\n"), w.plan)
			}
		})
	}
}

// plan is what a seed draws first.
type plan struct {
	Stale, Lost, Late, Watches, Deaths bool
	Restores, Values                   bool // LoadFirst if not Values
	Steps, Off, Clockless, Fine        bool
	Trip                               time.Duration
	Resources                          int
}

type world struct {
	plan
	rng *rand.Rand
	m   *memory

	mu     sync.Mutex
	broken []string
	gone   map[string]bool  // holders whose Release has been answered
	most   map[string]int64 // the greatest number that was granted of each resource
	spans  map[string][]span
	grants int
}

// span is the time during which a holder could rely on its lease.
type span struct {
	holder   string
	from, to time.Time
	number   int64
}

func newWorld(seed uint64) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 1)), m: new(memory),
		gone: map[string]bool{}, most: map[string]int64{}, spans: map[string][]span{}}
	some := func(of int) bool { return w.rng.IntN(of) == 0 }
	w.plan = plan{Stale: some(3), Lost: some(3), Late: some(3), Watches: some(3), Deaths: some(3), Restores: some(4), Values: some(2),
		Steps: some(8), Off: some(6), Clockless: some(6), Fine: some(3),
		Trip: time.Millisecond << w.rng.IntN(6), Resources: 1 + w.rng.IntN(2)}
	w.m.clockless, w.m.fine, w.m.values = w.Clockless, w.Fine, w.Values
	if w.Off {
		w.m.ahead = time.Duration(w.rng.IntN(7200)-3600) * time.Second
	}
	w.m.trip = func() time.Duration { return w.draw(w.Trip) }
	w.m.faults = w.faults
	w.m.wrote = w.wrote
	return w
}

// draw returns a duration of up to d. The caller holds the memory's mutex.
func (w *world) draw(d time.Duration) time.Duration { return time.Duration(w.rng.Int64N(int64(d))) }

func (w *world) faults() (f faults) {
	some := func(of int) bool { return w.rng.IntN(of) == 0 }
	if w.Stale && some(4) {
		f.stale = 1 + w.rng.IntN(3)
	}
	f.lost = w.Lost && some(20)
	if w.Late && some(20) {
		f.late = w.draw(3 * time.Second)
	}
	f.broken, f.deaf = w.Watches && some(4), w.Watches && some(8)
	return f
}

func (w *world) failf(format string, args ...any) {
	w.broken = append(w.broken, fmt.Sprintf(format, args...))
}

func processOf(holder string) string { return strings.SplitN(holder, "/", 2)[0] }

// wrote judges each write of a record. The memory's mutex is locked.
func (w *world) wrote(who, key string, before, after register.Entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	left := w.m.beats[key].Add(time.Duration(before.TTL) * time.Millisecond).Sub(now)
	if before.Holder != "" && after.Holder != before.Holder && left > 0 && processOf(before.Holder) != who && !w.Steps {
		w.failf("theft: %s ended the lease of %s, %s early, for %q", who, before.Holder, left, after.Holder)
	}
	if w.gone[after.Holder] && after.Holder != before.Holder && !w.Restores { // a backup may have it in its queue
		w.failf("gone: %s was granted the lock after its release", after.Holder)
	}
	if after.Number < before.Number {
		w.failf("number: %d was written after %d", after.Number, before.Number)
	}
	if most := lockstate.Clock(now.Add(w.m.ahead + 2*time.Second)); !w.Clockless && !w.Steps && after.Number > max(before.Number+1, most) {
		w.failf("lifted: %s wrote %d, %s above the server's clock", who, after.Number, time.Duration(after.Number-most)*10*time.Microsecond)
	}
	if after.Beat != before.Beat {
		if after.Number != before.Number && after.Holder != "" {
			if after.Number <= w.most[key] && !w.Off && !w.Steps {
				w.failf("number: %d was granted after %d", after.Number, w.most[key])
			}
			w.most[key] = max(w.most[key], after.Number)
			w.grants++
		}
	}
}

func (w *world) run() {
	ctx, stop := context.WithCancel(context.Background())
	var workers sync.WaitGroup
	for p := range 4 {
		c := w.m.client(fmt.Sprint("p", p))
		iss := &register.Issuer{Store: c, LoadFirst: w.Restores && !w.Values}
		alive, die := context.WithCancel(ctx)
		if w.Deaths && p > 1 {
			time.AfterFunc(time.Duration(w.rng.Int64N(int64(20*time.Second))), func() { c.kill(); die() })
		}
		for n := range 3 {
			rng := rand.New(rand.NewPCG(w.rng.Uint64(), 2))
			workers.Go(func() {
				for k := 0; alive.Err() == nil; k++ {
					time.Sleep(time.Duration(rng.Int64N(int64(300 * time.Millisecond))))
					w.work(alive, iss, rng, fmt.Sprintf("%s/%d:%d", c.who, n, k))
				}
			})
		}
		defer die()
	}
	w.disturb()
	stop()
	workers.Wait()
	w.m.mu.Lock()
	w.m.faults = nil
	w.m.mu.Unlock()
	w.settles()
	w.disjoint()
	time.Sleep(time.Second) // cancelled watches end
}

// disturb lasts for twenty seconds.
func (w *world) disturb() {
	restore := w.m.backup()
	for range 20 {
		time.Sleep(time.Second)
		w.m.mu.Lock()
		dice := w.rng.IntN(6)
		pause := w.draw(400 * time.Millisecond)
		w.m.mu.Unlock()
		switch {
		case w.Restores && dice == 0:
			w.m.mu.Lock()
			w.m.down = true
			w.m.notify()
			w.m.mu.Unlock()
			restore()
			time.Sleep(pause)
			w.m.mu.Lock()
			w.m.down = false
			w.m.mu.Unlock()
		case w.Restores && dice == 1:
			restore = w.m.backup()
		case w.Steps && dice == 2:
			w.m.mu.Lock()
			w.m.ahead = time.Duration(w.rng.IntN(120)-60) * time.Second
			w.m.mu.Unlock()
		}
	}
}

// work acquires once, holds, renews, and releases.
func (w *world) work(ctx context.Context, iss *register.Issuer, rng *rand.Rand, holder string) {
	resource := fmt.Sprint("r", rng.IntN(w.Resources))
	ttl := time.Duration(1+rng.IntN(3)) * time.Second
	call, waits := iss.Acquire, rng.IntN(3) > 0
	if waits {
		call = iss.Wait
	}
	limited, cancel := context.WithTimeout(ctx, time.Duration(rng.Int64N(int64(8*time.Second))))
	defer cancel()
	g, err := call(limited, resource, holder, ttl)
	if err != nil {
		if !waits && !errors.Is(err, token.ErrHeld) { // it may have been granted
			w.release(ctx, iss, token.Token{Resource: resource, Number: 1, Holder: holder})
		}
		return
	}
	s := span{holder: holder, from: time.Now(), to: g.Until, number: g.Token.Number}
	for range rng.IntN(4) {
		time.Sleep(time.Duration(rng.Int64N(int64(ttl))))
		if !time.Now().Before(s.to) {
			break
		}
		if rng.IntN(10) == 0 && !w.Restores {
			_ = iss.Recover(ctx, resource, g.Token.Number+rng.Int64N(100))
		}
		until, err := iss.Renew(ctx, g.Token, ttl)
		if err == nil {
			s.to = until
		} else if errors.Is(err, token.ErrLost) {
			if time.Now().Before(s.to) && !w.Restores && !w.Steps {
				w.mu.Lock()
				w.failf("lost: %s was told so %s before its lease ended", holder, time.Until(s.to))
				w.mu.Unlock()
			}
			break
		}
	}
	if now := time.Now(); now.Before(s.to) {
		s.to = now
	}
	w.mu.Lock()
	w.spans[resource] = append(w.spans[resource], s)
	w.mu.Unlock()
	if rng.IntN(5) > 0 {
		w.release(ctx, iss, g.Token)
	}
}

func (w *world) release(ctx context.Context, iss *register.Issuer, tok token.Token) {
	if err := iss.Release(ctx, tok); err == nil || errors.Is(err, token.ErrLost) {
		w.mu.Lock()
		w.gone[tok.Holder] = true
		w.mu.Unlock()
	}
}

// settles checks that a new process gets each resource when the faults are over.
func (w *world) settles() {
	iss := w.m.issuer("last")
	for r := range w.Resources {
		began := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		g, err := iss.Wait(ctx, fmt.Sprint("r", r), "last/"+fmt.Sprint(r), time.Second)
		cancel()
		if err != nil {
			w.failf("stuck: %v: %+v", err, w.m.record(fmt.Sprint("r", r)))
		} else if took := time.Since(began); took > 20*time.Second {
			w.failf("slow: the lock was free after %s", took)
		} else if err := iss.Release(context.Background(), g.Token); err != nil {
			w.failf("the last release: %v", err)
		}
	}
}

// disjoint checks that no two holders relied on one resource.
func (w *world) disjoint() {
	if w.Restores || w.Steps {
		return
	}
	for _, all := range w.spans {
		all = slices.DeleteFunc(all, func(s span) bool { return !s.from.Before(s.to) })
		slices.SortFunc(all, func(a, b span) int { return a.from.Compare(b.from) })
		for n := 1; n < len(all); n++ {
			if a, b := all[n-1], all[n]; a.to.After(b.from) {
				w.failf("owner: %s and %s both held the lock for %s", a.holder, b.holder, a.to.Sub(b.from))
			}
		}
	}
}
