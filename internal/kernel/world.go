package kernel

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// The proportions of a run. Only these matter: nothing waits for real.
const (
	ttl      = 100 * time.Millisecond
	margin   = ttl / 10
	troubled = 4 * ttl          // faults begin before this
	horizon  = troubled + 8*ttl // and work before this
	patience = ttl / 4          // for an answer
	slack    = 5 * ttl          // what may be waited for: an answer that never comes, then work that overruns
)

// endless is many times what happens in a run.
const endless = 50_000

// epoch is what all clocks show at the beginning.
var epoch = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// world is one run under way.
type world struct {
	laws    *laws
	observe bool // refuse nothing
	faults  Faults
	draw    *rand.Rand
	now     time.Duration
	agenda  agenda
	record  record
	network network
	lock    cluster
	store   *store
	service *service // nil: holders ask the store themselves
	holders []*process
	names   []string // of the resources
	units   []unit
	isLine  bool // waiters stand in line
	forgot  bool // the lock has lost some of its memory
	jumped  bool // the lock's clock has jumped
	isMute  bool // a service has refused by a mark that the lock does not get past by itself, and does not tell it
}

func newWorld(seed uint64, s Setting) *world {
	w := &world{laws: s.laws(), observe: s.Observe, draw: rand.New(rand.NewPCG(seed, 0))}
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

// begins puts down what happens first.
func (w *world) begins() {
	w.lock.start(w)
	for _, p := range w.holders {
		for range 1 + w.draw.IntN(2) { // it may do two things at a time
			p.after(w.upTo(ttl/2), p.round)
		}
	}
	w.plan()
}

// run lets everything happen that is to happen.
func (w *world) run() error {
	for len(w.agenda.heap) > 0 {
		if w.agenda.count > endless {
			return fmt.Errorf("kernel: after %d events there is no end in sight", endless)
		}
		e := w.agenda.pop()
		w.now = e.at
		e.happen()
	}
	w.close()
	return nil
}

func (w *world) after(d time.Duration, do func()) {
	w.agenda.push(event{at: w.now + max(d, 0), deed: step(do)})
}
