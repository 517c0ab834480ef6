package dst

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fencepost/fencepost/internal/history"
)

// The proportions of a run. Their scale does not matter, since time is simulated.
const (
	ttl          = 100 * time.Millisecond
	margin       = ttl / 10
	troubled     = 4 * ttl          // faults begin before this time
	horizon      = troubled + 8*ttl // work begins before this time
	replyTimeout = ttl / 4          // of a request
	slack        = 5 * ttl          // the longest legitimate wait: for a reply that never comes, and then for work that overruns
)

// endless is many times the number of events of a run.
const endless = 50_000

// epoch is the time that all clocks show at the beginning.
var epoch = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// world is one run.
type world struct {
	decisions      *decisions
	ignoreRefusals bool // refuse nothing
	faults         Faults
	draw           *rand.Rand
	now            time.Duration
	eventQueue     eventQueue
	record         record
	network        network
	lock           cluster
	store          *store
	service        *service // nil: holders send requests to the store
	holders        []*process
	names          []string // of the resources
	units          []unit
	isLine         bool // waiters queue
	forgot         bool // the lock has lost some of its memory
	jumped         bool // the lock's clock has jumped
	hiddenMark     bool // a service has refused because of a mark that it does not report and that is above the lock's clock
}

func newWorld(seed uint64, s Setting) *world {
	w := &world{decisions: s.decisions(), ignoreRefusals: s.IgnoreRefusals, draw: rand.New(rand.NewPCG(seed, 0))}
	w.faults = w.some(s.Faults)
	w.names = []string{"account/42", "job/7"}[:1+w.draw.IntN(2)]
	w.isLine = w.flip()
	w.store = newStore(w)
	if isServed := w.flip(); isServed || s.Mutant.isOf("service") {
		w.service = newService(w)
	}
	for i := range 2 + w.draw.IntN(2) {
		w.holders = append(w.holders, newProcess(w, i))
	}
	return w
}

// begins schedules the first events.
func (w *world) begins() {
	w.lock.start(w)
	for _, p := range w.holders {
		for range 1 + w.draw.IntN(2) { // a process may do two things at the same time
			p.after(w.upTo(ttl/2), p.round)
		}
	}
	w.plan()
}

// run plays all events.
func (w *world) run() error {
	for len(w.eventQueue.heap) > 0 {
		if w.eventQueue.count > endless {
			return fmt.Errorf("dst: the run has not ended after %d events", endless)
		}
		e := w.eventQueue.pop()
		w.now = e.at
		e.happen()
	}
	w.close()
	return nil
}

func (w *world) after(d time.Duration, do func()) {
	w.eventQueue.push(event{at: w.now + max(d, 0), action: step(do)})
}

// plan draws the times of the faults, and of other events that are not caused by holders.
func (w *world) plan() {
	for i, inject := range []func(){
		w.pause, w.suspend, w.crash, nil, nil, nil, nil, w.cut, w.jump, w.restart, w.forget, w.promote,
	} {
		if inject == nil || !w.faults.has(1<<i) {
			continue
		}
		for range 1 + w.draw.IntN(4) {
			w.after(w.upTo(troubled), inject)
		}
	}
	for range w.draw.IntN(8) {
		w.after(w.upTo(horizon), func() {
			cutoff := w.store.now() - int64(w.upTo(ttl)/(10*time.Microsecond))
			w.store.deliver(func() { w.decisions.prune(w.store, cutoff) })
		})
	}
	if some := w.faults & ofMessages; some != 0 {
		w.fault("network", "messages: "+some.String(), troubled)
	}
	for range 2 {
		w.after(w.upTo(horizon), func() { w.look(w.draw.IntN(len(w.names))) })
	}
	if w.service != nil {
		w.after(w.upTo(troubled), w.service.forge)
	}
}

// fault records a fault for each resource.
func (w *world) fault(who, what string, d time.Duration) {
	for r := range w.names {
		entry := w.note(history.Fault, who, r)
		entry.Note, entry.Ended = what, w.now+d
	}
}

// flip returns true half of the time.
func (w *world) flip() bool { return w.draw.Uint64()&1 == 0 }

// chance returns true in percent of 100 cases.
func (w *world) chance(percent int) bool { return percent > 0 && w.draw.IntN(100) < percent }

// work returns how long work takes: usually short, sometimes long.
func (w *world) work() time.Duration {
	if w.chance(25) {
		return w.upTo(ttl)
	}
	return w.upTo(ttl / 20)
}

// upTo returns a time below d.
func (w *world) upTo(d time.Duration) time.Duration { return time.Duration(w.draw.Int64N(int64(d))) }
