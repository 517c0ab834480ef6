package kernel

import "time"

// call asks a server something, and is told the answer once: or that there was
// none in time, after which an answer is not heard. The server may be asked
// twice.
func call[T any](p *process, to *node, bound time.Duration, ask func(answer func(T)), answered func(T), lost func()) {
	w, life, isOver := p.w, p.life, false
	end := func(do func()) {
		p.does(life, func() {
			if !isOver {
				isOver = true
				do()
			}
		})
	}
	p.stumble()
	p.does(life, func() {
		w.send(p.place, to.place, func() {
			to.hear(func() {
				ask(func(t T) {
					w.send(to.place, p.place, func() { end(func() { answered(t) }) })
				})
			})
		})
		p.after(bound, func() { end(lost) })
		p.stumble()
	})
}

// tell asks for something, and does not wait for the answer.
func tell(p *process, to *node, ask func()) {
	p.w.send(p.place, to.place, func() { to.hear(ask) })
}
