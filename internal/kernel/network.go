package kernel

import "time"

// The places on the network. Holders are from 0 on.
const (
	atLock = 8 + iota // and its replica at the next
	atReplica
	atStore
	atProxy
	places
)

// network carries messages, or does not.
type network struct {
	cut [places][places]time.Duration // until when nothing gets through
}

// send has something arrive: once, never, twice, or much later.
func (w *world) send(from, to int, arrive deed) { w.carry(from, to, event{deed: arrive}) }

// sendTo has that life of p hear something.
func (w *world) sendTo(p *process, life, from int, hear deed) {
	w.carry(from, p.place, event{deed: hear, who: p, life: life})
}

func (w *world) carry(from, to int, e event) {
	if w.now < w.network.cut[from][to] {
		return
	}
	if w.amiss(Lose, 8) {
		return
	}
	e.at = w.now + w.travel()
	w.agenda.push(e)
	if from != atProxy && to != atProxy && w.amiss(Duplicate, 8) { // HTTP goes over one connection; it is the proxy that repeats
		e.at = w.now + w.travel() + w.upTo(ttl)
		w.agenda.push(e)
	}
}

// travel is how long a message takes.
func (w *world) travel() time.Duration {
	d := ttl/400 + w.upTo(ttl/100)
	if w.amiss(Delay, 25) {
		d += w.upTo(ttl / 5)
	}
	if w.amiss(Reorder, 8) {
		d += w.upTo(2 * ttl)
	}
	return d
}

// amiss reports whether this message meets with fault, as percent of them do
// while there is trouble.
func (w *world) amiss(fault Faults, percent int) bool {
	return w.now < troubled && w.faults.has(fault) && w.chance(percent)
}
