package kernel

import "time"

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
