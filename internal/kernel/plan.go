package kernel

import (
	"time"

	"github.com/fencepost/fencepost/simulations/history"
)

// plan draws when which faults come, and what else happens beside the holders.
func (w *world) plan() {
	for i, strike := range []func(){
		w.pause, w.suspend, w.crash, nil, nil, nil, nil, w.cut, w.jump, w.restart, w.forget, w.promote,
	} {
		if strike == nil || !w.faults.has(1<<i) {
			continue
		}
		for range 1 + w.draw.IntN(4) {
			w.after(w.upTo(troubled), strike)
		}
	}
	for range w.draw.IntN(8) {
		w.after(w.upTo(horizon), func() {
			cutoff := w.store.now() - int64(w.upTo(ttl)/(10*time.Microsecond))
			w.store.hear(func() { w.laws.prune(w.store, cutoff) })
		})
	}
	if amiss := w.faults & ofMessages; amiss != 0 {
		w.fault("network", "messages: "+amiss.String(), troubled)
	}
	for range 2 {
		w.after(w.upTo(horizon), func() { w.look(w.draw.IntN(len(w.names))) })
	}
	if w.service != nil {
		w.after(w.upTo(troubled), w.service.forge)
	}
}

// fault puts down what happened to whom, for each resource.
func (w *world) fault(who, what string, d time.Duration) {
	for r := range w.names {
		entry := w.note(history.Fault, who, r)
		entry.Note, entry.Ended = what, w.now+d
	}
}

func (w *world) someone() *process { return w.holders[w.draw.IntN(len(w.holders))] }

func (w *world) pause() {
	if p := w.someone(); !p.stopped {
		w.pauses(p)
	}
}

func (w *world) pauses(p *process) {
	d := w.upTo(3 * ttl)
	w.fault(p.name, "paused", d)
	p.stop(d, false)
}
func (w *world) suspend() {
	if p := w.someone(); !p.stopped {
		w.suspends(p)
	}
}

func (w *world) suspends(p *process) {
	d := w.upTo(3 * ttl)
	w.fault(p.name, "suspended: its clock stands", d)
	p.stop(d, true)
}

func (w *world) crash() {
	p, d := w.someone(), w.upTo(ttl)
	w.fault(p.name, "crashed", d)
	p.crash(d)
}

// cut lets nothing through between a holder and a server, one way.
func (w *world) cut() {
	p, d := w.someone(), w.upTo(2*ttl)
	if w.service != nil && w.chance(30) {
		w.service.blinded = max(w.service.blinded, w.now+d)
		w.fault(w.store.name, "the service cannot reach its marks", d)
		return
	}
	server, name := atLock+w.lock.primary, "the lock"
	if w.flip() {
		server, name = w.guardian().place, "the "+w.guardian().name
	}
	from, to, way := p.place, server, "cannot reach "
	if w.flip() {
		from, to, way = server, p.place, "does not hear "
	}
	w.network.cut[from][to] = max(w.network.cut[from][to], w.now+d)
	w.fault(p.name, way+name, d)
}

// guardian is who holders write to.
func (w *world) guardian() *node {
	if w.service != nil {
		return &w.service.proxy
	}
	return &w.store.node
}

// jump moves a server's clock: by less than a day, beyond which a lock refuses to
// be raised.
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
	if d < -ttl && n != &w.store.node { // by less, and who waits is kept waiting for less than the rule allows
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
		n := w.guardian()
		if n == &w.store.node {
			w.store.restart(d)
		} else {
			n.restart(d)
		}
		w.fault(n.name, "restarts", d)
	}
}

// forget is a restart that has lost everything.
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

// pruned puts down that the floor is over a resource now, as if somebody had
// claimed it. Where there was no mark the floor explains a refusal, and is no
// evidence against the guard: it is lower than what was admitted only if that had
// been forgotten before, and then somebody stale must still come.
func (s *store) pruned(resource int, deleted bool) {
	entry := s.w.note(history.Claim, "prune", resource)
	entry.Number, entry.Holder = s.floor, "prune"
	if !deleted {
		entry.Outcome = history.Unknown
	}
}
