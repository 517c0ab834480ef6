package dst

import (
	"time"
)

// The addresses on the network. Holders have the addresses from 0 on.
const (
	atLock = 8 + iota // and its replica at the next
	atReplica
	atStore
	atProxy
	places
)

// network carries messages between addresses.
type network struct {
	cut [places][places]time.Duration // until when messages are lost
}

// send delivers a message: once, never, twice, or much later.
func (w *world) send(from, to int, onRequest action) { w.carry(from, to, event{action: onRequest}) }

// sendTo delivers a reply to one incarnation of p.
func (w *world) sendTo(p *process, life, from int, onReply action) {
	w.carry(from, p.place, event{action: onReply, who: p, life: life})
}

func (w *world) carry(from, to int, e event) {
	if w.now < w.network.cut[from][to] {
		return
	}
	if w.hit(Lose, 8) {
		return
	}
	e.at = w.now + w.travel()
	w.eventQueue.push(e)
	if from != atProxy && to != atProxy && w.hit(Duplicate, 8) { // HTTP uses one connection; the proxy is what repeats
		e.at = w.now + w.travel() + w.upTo(ttl)
		w.eventQueue.push(e)
	}
}

// travel returns how long a message takes.
func (w *world) travel() time.Duration {
	d := ttl/400 + w.upTo(ttl/100)
	if w.hit(Delay, 25) {
		d += w.upTo(ttl / 5)
	}
	if w.hit(Reorder, 8) {
		d += w.upTo(2 * ttl)
	}
	return d
}

// hit reports whether fault affects this message. It affects that percentage of messages
// while faults may occur.
func (w *world) hit(fault Faults, percent int) bool {
	return w.now < troubled && w.faults.has(fault) && w.chance(percent)
}

// node is a server. While it is down it receives nothing. When it goes down, its pending
// work is lost.
type node struct {
	w     *world
	place int
	name  string
	life  int
	down  bool
	skew  time.Duration // how far its clock is ahead
}

// clock returns the time of the node's clock.
func (n *node) clock() time.Time { return epoch.Add(n.w.now + n.skew) }

// deliver runs the handler of a message, if n is up.
func (n *node) deliver(message func()) {
	if !n.down {
		message()
	}
}

// after schedules do, unless n restarts before.
func (n *node) after(d time.Duration, do func()) {
	n.w.eventQueue.push(event{at: n.w.now + max(d, 0), action: step(do), who: n, life: n.life})
}

// act implements [actor].
func (n *node) act(e *event) {
	if n.life == e.life {
		e.action.do()
	}
}

// restart stops n for a while.
func (n *node) restart(away time.Duration) {
	n.life++
	n.down = true
	n.after(away, func() { n.down = false }) // unless it is restarted again in the meantime
}

// serverCall is a request to a server whose reply is a T.
type serverCall[T any] interface {
	onRequest(answer func(T)) // called on the server
	onReply(T)                // the answer
	onTimeout()               // no answer in time
}

// pendingCall is a request of a process that has no reply yet.
type pendingCall[T any] struct {
	*process
	serverCall serverCall[T]
	life       int // the process's
	to         *node
	isOver     bool
}

// call sends a request to a server. It calls onReply or onTimeout, once. A reply after
// the timeout is dropped. The server may receive the request twice.
func call[T any](p *process, to *node, bound time.Duration, a serverCall[T]) {
	q := &pendingCall[T]{process: p, serverCall: a, life: p.life, to: to}
	p.maybeStop()
	if p.stopped {
		p.does(q.life, step(func() { q.send(bound) }))
		return
	}
	q.send(bound)
}

func (q *pendingCall[T]) send(bound time.Duration) {
	q.w.send(q.place, q.to.place, (*arrival[T])(q))
	q.later(bound, (*expiry[T])(q))
	q.maybeStop()
}

// arrival is the arrival of a request at the server.
type arrival[T any] pendingCall[T]

func (a *arrival[T]) do() {
	if !a.to.down {
		a.serverCall.onRequest((*pendingCall[T])(a).answer)
	}
}

func (q *pendingCall[T]) answer(t T) {
	q.w.sendTo(q.process, q.life, q.to.place, step(func() {
		if !q.isOver {
			q.isOver = true
			q.serverCall.onReply(t)
		}
	}))
}

// expiry is the timeout of a request.
type expiry[T any] pendingCall[T]

func (q *expiry[T]) do() {
	if !q.isOver {
		q.isOver = true
		q.serverCall.onTimeout()
	}
}

// notify sends a request without a reply.
func notify(p *process, to *node, ask func()) {
	p.w.send(p.place, to.place, step(func() { to.deliver(ask) }))
}
