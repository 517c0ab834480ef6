package dst

import (
	"strconv"
	"time"
)

// process is a process that holds resources. It can be stopped, as by SIGSTOP; suspended,
// as a virtual machine is, so that its own clock stops too; and killed.
type process struct {
	w            *world
	place        int
	name         string
	life         int
	acquisitions int // acquisitions so far
	at           int // the server that it uses as the lock
	rounds       int // rounds left in which it works
	stopped      bool
	pending      []action      // messages that arrived while it was stopped
	clockLag     time.Duration // how far its clock is behind
}

func newProcess(w *world, place int) *process {
	return &process{w: w, place: place, name: string(rune('A' + place)), rounds: 1 + w.draw.IntN(2)}
}

// holder returns the holder of its next acquisition.
func (p *process) holder() string {
	p.acquisitions++
	return p.name + "-" + strconv.Itoa(p.acquisitions)
}

// does runs an action of one incarnation, as soon as the process is not stopped.
func (p *process) does(life int, it action) {
	switch {
	case p.life != life:
	case p.stopped:
		p.pending = append(p.pending, it)
	default:
		it.do()
	}
}

// after schedules do, by p's own clock.
func (p *process) after(d time.Duration, do func()) { p.later(d, step(do)) }

func (p *process) later(d time.Duration, do action) {
	d = max(d, 0)
	p.w.eventQueue.push(event{at: p.w.now + d, action: do, who: p, life: p.life, due: p.clock() + d})
}

// act implements [actor]. If p's clock was stopped, the event is not due yet.
func (p *process) act(e *event) {
	if early := e.due - p.clock(); early > 0 && p.life == e.life {
		later := *e
		later.at = p.w.now + early
		p.w.eventQueue.push(later)
		return
	}
	p.does(e.life, e.action)
}

// stop stops the process for d. If it is suspended, its clock stops too.
func (p *process) stop(d time.Duration, suspended bool) {
	if p.stopped {
		return
	}
	p.stopped = true
	life := p.life
	p.w.after(d, func() {
		if p.life != life {
			return
		}
		p.stopped = false
		if suspended {
			p.clockLag += d
		}
		waiting := p.pending
		p.pending = nil
		for _, it := range waiting {
			p.does(life, it)
		}
	})
}

// maybeStop stops the process now and then: before it sends a request, after it has
// checked its lease, and after it has sent a request.
func (p *process) maybeStop() {
	switch {
	case p.stopped:
	case p.w.hit(Pause, 4):
		p.w.stopFor(p, false)
	case p.w.hit(Suspend, 4):
		p.w.stopFor(p, true)
	}
}

// crash kills the process. Another process starts in its place after a while.
func (p *process) crash(away time.Duration) {
	p.life++
	p.w.endOps(p.name)
	p.w.lock.removeWaiters(p)
	p.stopped, p.pending = false, nil
	p.after(away, p.round)
}

// clock returns the time by which the process measures leases.
func (p *process) clock() time.Duration { return p.w.now - p.clockLag }

// moment is a time on a process's own clock, and how long that clock had been stopped
// by then.
type moment struct{ at, clockLag time.Duration }

func (p *process) moment() moment { return moment{p.clock(), p.clockLag} }

// shown converts a time on the process's clock to the world's, if the clock has not
// stopped since m.
func (m moment) shown(t time.Duration) time.Duration { return t + m.clockLag }
