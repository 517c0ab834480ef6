package kernel

import "time"

// asker is who asks a server something, of which the answer is a T.
type asker[T any] interface {
	arrive(answer func(T)) // at the server
	hear(T)                // the answer
	miss()                 // it, in time
}

// question is what a process has asked a server.
type question[T any] struct {
	*process
	asker  asker[T]
	life   int // the process's
	to     *node
	isOver bool
}

// call asks a server something, and is told the answer once: or that there was
// none in time, after which an answer is not heard. The server may be asked
// twice.
func call[T any](p *process, to *node, bound time.Duration, a asker[T]) {
	q := &question[T]{process: p, asker: a, life: p.life, to: to}
	p.stumble()
	if p.stopped {
		p.does(q.life, step(func() { q.send(bound) }))
		return
	}
	q.send(bound)
}

func (q *question[T]) send(bound time.Duration) {
	q.w.send(q.place, q.to.place, (*arrival[T])(q))
	q.later(bound, (*expiry[T])(q))
	q.stumble()
}

// arrival is that of a question at the server.
type arrival[T any] question[T]

func (a *arrival[T]) do() {
	if !a.to.down {
		a.asker.arrive((*question[T])(a).answer)
	}
}

func (q *question[T]) answer(t T) {
	q.w.sendTo(q.process, q.life, q.to.place, step(func() {
		if !q.isOver {
			q.isOver = true
			q.asker.hear(t)
		}
	}))
}

// expiry is the end of a question's time.
type expiry[T any] question[T]

func (q *expiry[T]) do() {
	if !q.isOver {
		q.isOver = true
		q.asker.miss()
	}
}

// tell asks for something, and does not wait for the answer.
func tell(p *process, to *node, ask func()) {
	p.w.send(p.place, to.place, step(func() { to.hear(ask) }))
}
