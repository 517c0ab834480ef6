package kernel

import "time"

// question is what a process has asked a server.
type question[T any] struct {
	*process
	life     int // the asker's
	to       *node
	ask      func(answer func(T))
	answered func(T)
	lost     func()
	isOver   bool
}

// call asks a server something, and is told the answer once: or that there was
// none in time, after which an answer is not heard. The server may be asked
// twice.
func call[T any](p *process, to *node, bound time.Duration, ask func(answer func(T)), answered func(T), lost func()) {
	q := &question[T]{process: p, life: p.life, to: to, ask: ask, answered: answered, lost: lost}
	p.stumble()
	if p.stopped {
		p.does(q.life, func() { q.send(bound) })
		return
	}
	q.send(bound)
}

func (q *question[T]) send(bound time.Duration) {
	q.w.send(q.place, q.to.place, q.arrive)
	q.after(bound, q.expire)
	q.stumble()
}

// arrive is at the server.
func (q *question[T]) arrive() {
	if !q.to.down {
		q.ask(q.answer)
	}
}

func (q *question[T]) answer(t T) {
	q.w.sendTo(q.process, q.life, q.to.place, func() {
		if !q.isOver {
			q.isOver = true
			q.answered(t)
		}
	})
}

func (q *question[T]) expire() {
	if !q.isOver {
		q.isOver = true
		q.lost()
	}
}

// tell asks for something, and does not wait for the answer.
func tell(p *process, to *node, ask func()) {
	p.w.send(p.place, to.place, func() { to.hear(ask) })
}
