package once_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/subprocess"
)

const (
	workers   = 6
	orderSize = 50  // units in one order
	faultEach = 100 // units between two faults
)

// rig shares units out among workers, and makes them and their server fail.
type rig struct {
	*testing.T
	*server
	setup setup
	dice  *rand.Rand
	units int // all units so far

	mu      sync.Mutex
	changed *sync.Cond // work, busy or done has changed
	work    []order
	busy    map[int]order // the rest of each worker's order
	done    int
	results map[int]string
	differ  int // reports of a unit with another result than before
	slots   [workers]*subprocess.Process[report]
	faults  map[string]int
}

func newRig(t *testing.T, name string, how mode) *rig {
	t.Helper()
	s := engines[name].start(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := &rig{
		T: t, server: s, setup: setup{name, s.url, how}, dice: rand.New(rand.NewPCG(seed, 0)),
		busy: map[int]order{}, results: map[int]string{}, faults: map[string]int{},
	}
	r.changed = sync.NewCond(&r.mu)
	return r
}

// run applies that many more units.
func (r *rig) run(units int) {
	r.Helper()
	for first := r.units; first < r.units+units; first += orderSize {
		r.work = append(r.work, order{fmt.Sprint("batch/", first/orderSize%10), first, min(first+orderSize, r.units+units)})
	}
	r.units += units
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() { r.serve(i) })
	}
	for next := r.count() + faultEach; r.reaches(next); next += faultEach {
		r.fault()
	}
	all.Wait()
	for _, p := range r.slots {
		p.End(r.Context())
	}
	r.Logf("%s: %d units, faults %v", r.setup.Mode, r.units, r.faults)
}

func (r *rig) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.done
}

// reaches waits until that many units are reported. It returns false if all are.
func (r *rig) reaches(done int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.done < done && (len(r.work) > 0 || len(r.busy) > 0) {
		r.changed.Wait()
	}
	return r.done >= done
}

// next returns an order, and false if there is no work left, and no worker from which
// there could be more.
func (r *rig) next(slot int) (order, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.busy, slot)
	r.changed.Broadcast()
	for len(r.work) == 0 && len(r.busy) > 0 {
		r.changed.Wait()
	}
	if len(r.work) == 0 {
		return order{}, false
	}
	o := r.work[0]
	r.work, r.busy[slot] = r.work[1:], o
	return o, true
}

// serve gives orders to a worker. If the worker has died, the next one continues with the
// first unit that was not reported.
func (r *rig) serve(slot int) {
	p := r.start(slot)
	for o, more := r.next(slot); more; o, more = r.next(slot) {
		for o.First < o.Last {
			if err := p.Send(o); err != nil {
				p = r.start(slot)
				continue
			}
			for o.First < o.Last {
				said, err := p.Next(r.Context())
				if err != nil {
					p = r.start(slot)
					break
				}
				o.First++
				r.reported(slot, o, said)
			}
		}
	}
}

func (r *rig) start(slot int) *subprocess.Process[report] {
	for {
		c, err := subprocess.Self("worker", "worker")
		if err != nil {
			panic(err) // FailNow must not be called on this goroutine
		}
		p, _, err := subprocess.Open[report](r.Context(), c, r.setup)
		if err != nil {
			continue // it was killed before it was ready
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if was := r.slots[slot]; was != nil {
			was.End(r.Context())
		}
		r.slots[slot] = p
		return p
	}
}

func (r *rig) reported(slot int, rest order, said report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if first, known := r.results[said.Unit]; known && first != said.Result {
		r.differ++
	}
	r.results[said.Unit] = said.Result
	r.busy[slot] = rest
	r.done++
	r.changed.Broadcast()
}

// fault makes a worker or the server fail.
func (r *rig) fault() {
	slot, what := r.dice.IntN(workers), "kill"
	switch n := r.dice.IntN(20); {
	case n < 8:
	case n < 15:
		what = "stop"
	case n < 19 || r.restart == nil:
		what = "disconnect"
	default:
		what = "restart"
	}
	r.faults[what]++
	r.mu.Lock()
	p := r.slots[slot]
	r.mu.Unlock()
	if p == nil {
		return
	}
	switch what {
	case "kill":
		p.Kill()
	case "stop":
		r.overtake(slot, p)
	case "disconnect":
		require.NoError(r, r.disconnect(r.Context()))
	case "restart":
		r.restart()
	}
}

// overtake stops a worker with SIGSTOP, and gives the rest of its order to another. It
// resumes the worker when half an order has been applied meanwhile, or when only the
// stopped worker has work.
func (r *rig) overtake(slot int, p *subprocess.Process[report]) {
	if p.Stop() != nil || p.Stands(r.Context()) != nil {
		return // it has ended
	}
	r.mu.Lock()
	rest, has := r.busy[slot]
	if has && rest.First < rest.Last {
		r.work = append([]order{rest}, r.work...)
		r.changed.Broadcast()
	}
	until := r.done + orderSize/2
	for r.done < until && (len(r.work) > 0 || len(r.busy) > 1) {
		r.changed.Wait()
	}
	r.mu.Unlock()
	_ = p.Continue()
}

// judge compares the effects with the reports.
func (r *rig) judge() (doubled, lost int) {
	r.Helper()
	counts, results := r.effects(r.Context())
	for unit := range r.units {
		said, reported := r.results[unit]
		require.True(r, reported, "unit %d", unit)
		switch n := counts[unit]; {
		case n == 0:
			lost++
		case n > 1:
			doubled++
		}
		if r.setup.Mode == once && said != results[unit] {
			r.differ++
		}
	}
	r.Logf("%s: %d units doubled, %d lost", r.setup.Mode, doubled, lost)
	return doubled, lost
}
