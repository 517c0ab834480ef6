package kernel

import (
	"strconv"
	"time"
)

// process is one that holds resources, one at a time. It can be stopped, as by
// SIGSTOP; suspended, as a virtual machine is, so that its own clock stands too;
// and killed.
type process struct {
	w       *world
	place   int
	name    string
	life    int
	asks    int // acquisitions so far
	at      int // the server that it takes for the lock
	rounds  int // to go, in which something is done
	stopped bool
	inbox   []deed        // what came meanwhile
	stood   time.Duration // what its clock shows too little
}

func newProcess(w *world, place int) *process {
	return &process{w: w, place: place, name: string(rune('A' + place)), rounds: 1 + w.draw.IntN(2)}
}

// holder is the name of its next acquisition.
func (p *process) holder() string {
	p.asks++
	return p.name + "-" + strconv.Itoa(p.asks)
}

// does something, in that life; and when it is awake.
func (p *process) does(life int, it deed) {
	switch {
	case p.life != life:
	case p.stopped:
		p.inbox = append(p.inbox, it)
	default:
		it.do()
	}
}

// after does something later, by p's own clock.
func (p *process) after(d time.Duration, do func()) { p.later(d, step(do)) }

func (p *process) later(d time.Duration, do deed) {
	d = max(d, 0)
	p.w.agenda.push(event{at: p.w.now + d, deed: do, who: p, life: p.life, due: p.clock() + d})
}

// act implements [actor]. Where p's clock has stood, it is not time yet.
func (p *process) act(e *event) {
	if early := e.due - p.clock(); early > 0 && p.life == e.life {
		later := *e
		later.at = p.w.now + early
		p.w.agenda.push(later)
		return
	}
	p.does(e.life, e.deed)
}

// stop stops it for d; with its clock, if it is suspended.
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
			p.stood += d
		}
		waiting := p.inbox
		p.inbox = nil
		for _, it := range waiting {
			p.does(life, it)
		}
	})
}

// stumble stops it right here, now and then: before it sends something, after it
// has looked whether it may, and after it has sent it.
func (p *process) stumble() {
	switch {
	case p.stopped:
	case p.w.amiss(Pause, 4):
		p.w.still(p, false)
	case p.w.amiss(Suspend, 4):
		p.w.still(p, true)
	}
}

// crash ends it, and another begins in its place a while later.
func (p *process) crash(away time.Duration) {
	p.life++
	p.w.hush(p.name)
	p.w.lock.hangUp(p)
	p.stopped, p.inbox = false, nil
	p.after(away, p.round)
}
