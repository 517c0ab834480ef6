package dst

import (
	"fmt"
	"strings"
	"time"
)

// Faults is a set of faults.
type Faults uint32

// The faults.
const (
	Pause     Faults = 1 << iota // a holder is stopped for a while
	Suspend                      // a holder is stopped, and so is its clock
	Crash                        // a holder dies; another takes its place
	Delay                        // messages are slow
	Lose                         // messages are lost
	Duplicate                    // messages arrive twice
	Reorder                      // single messages arrive much later than others
	Cut                          // one direction between two addresses is cut
	Clock                        // a server's clock jumps, ahead or back
	Restart                      // a server is down for a while, and keeps its memory
	Forget                       // the lock is down for a while, and loses its memory
	Promote                      // a replica that is behind takes the lock's place
	Retry                        // a proxy sends a request again
	Overrun                      // work continues after HoldAtMost has ended its lease
	every     = iota

	// All is every fault.
	All = 1<<every - 1
)

var faultNames = [every]string{
	"pause", "suspend", "crash", "delay", "lose", "duplicate", "reorder", "cut", "clock", "restart", "forget", "promote", "retry", "overrun",
}

// FaultNames lists the names of all faults, for [ParseFaults].
func FaultNames() []string { return faultNames[:] }

// ParseFaults returns the set of the named faults.
func ParseFaults(names []string) (Faults, error) {
	var all Faults
next:
	for _, name := range names {
		for i, known := range faultNames {
			if name == known {
				all |= 1 << i
				continue next
			}
		}
		return 0, fmt.Errorf("dst: no fault is named %q; there are %s", name, strings.Join(faultNames[:], ", "))
	}
	return all, nil
}

// String returns the names, separated by commas.
func (f Faults) String() string {
	var names []string
	for i, name := range faultNames {
		if f.has(1 << i) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

func (f Faults) has(one Faults) bool { return f&one != 0 }

// ofMessages are the faults that hit single messages while faults may occur.
const ofMessages = Delay | Lose | Duplicate | Reorder | Retry

// dishonest are the faults that make a lock break its own promises.
const dishonest = Clock | Forget | Promote

// some removes about half of the faults: events that are rare among all faults are common
// among few (Groce et al., Swarm Testing, ISSTA 2012). In every other run it removes the
// faults that make the lock break its promises, so that the lock's own rules are judged.
func (w *world) some(faults Faults) Faults {
	faults &= Faults(w.draw.Uint32())
	if w.flip() {
		faults &^= dishonest
	}
	return faults
}

func (w *world) randomHolder() *process { return w.holders[w.draw.IntN(len(w.holders))] }

func (w *world) pause() { w.stopFor(w.randomHolder(), false) }

func (w *world) suspend() { w.stopFor(w.randomHolder(), true) }

// stopFor stops p for a while, and its clock too if it is suspended.
func (w *world) stopFor(p *process, suspended bool) {
	if p.stopped {
		return
	}
	d, what := w.upTo(3*ttl), "paused"
	if suspended {
		what = "suspended: its clock stands"
	}
	w.fault(p.name, what, d)
	p.stop(d, suspended)
}

func (w *world) crash() {
	p, d := w.randomHolder(), w.upTo(ttl)
	w.fault(p.name, "crashed", d)
	p.crash(d)
}

// cut blocks one direction between a holder and a server.
func (w *world) cut() {
	p, d := w.randomHolder(), w.upTo(2*ttl)
	if w.service != nil && w.chance(30) {
		w.service.marksCutUntil = max(w.service.marksCutUntil, w.now+d)
		w.fault(w.store.name, "the service cannot reach its marks", d)
		return
	}
	server, name := atLock+w.lock.primary, "the lock"
	if w.flip() {
		server, name = w.writeTarget().place, "the "+w.writeTarget().name
	}
	from, to, way := p.place, server, "cannot reach "
	if w.flip() {
		from, to, way = server, p.place, "gets nothing from "
	}
	w.network.cut[from][to] = max(w.network.cut[from][to], w.now+d)
	w.fault(p.name, way+name, d)
}

// writeTarget returns the server that holders write to.
func (w *world) writeTarget() *node {
	if w.service != nil {
		return &w.service.proxy
	}
	return &w.store.node
}

// jump moves a server's clock by less than a day: a lock refuses to be raised further
// than that.
func (w *world) jump() {
	n := &w.lock.servers[w.lock.primary].node
	if w.draw.IntN(4) == 0 {
		n = &w.store.node
	} else {
		w.jumped = true
	}
	d := w.upTo([]time.Duration{ttl, ttl, 10 * ttl, time.Hour}[w.draw.IntN(4)])
	what := "clock jumps " + d.String() + " ahead"
	if w.flip() {
		d, what = -d, "clock jumps "+d.String()+" back"
	}
	n.skew += d
	if d < -ttl && n != &w.store.node { // if it jumps less, waiters wait for less than the rule allows
		w.lock.late, w.lock.copiedLate = true, true
	}
	w.fault(n.name, what, 0)
}

func (w *world) restart() {
	d := w.upTo(ttl)
	switch w.draw.IntN(3) {
	case 0:
		s := &w.lock.servers[w.lock.primary]
		w.fault(s.name, "restarts", d)
		s.restart(d)
	case 1:
		w.fault(w.store.name, "restarts", d)
		w.store.restart(d)
	default:
		n := w.writeTarget()
		if n == &w.store.node {
			w.store.restart(d)
		} else {
			n.restart(d)
		}
		w.fault(n.name, "restarts", d)
	}
}

// forget is a restart that loses the lock's memory.
func (w *world) forget() {
	d, s := w.upTo(ttl), &w.lock.servers[w.lock.primary]
	w.fault(s.name, "restarts without its memory", d)
	w.forgot = true
	s.restart(d)
	s.forget()
	w.lock.late = false
}

func (w *world) promote() {
	w.fault("lock", "its replica takes over", ttl)
	w.forgot = true
	w.lock.promote(w)
}
