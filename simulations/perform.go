package simulations

import "github.com/fencepost/fencepost/simulations/history"

// performance is an interleaving under way.
type performance struct {
	*stage
	interleaving
	pace pace
}

// perform carries the interleaving out, as far as those who take part can be
// told what to do: somebody who waits for a sleeper is left waiting.
func (p *performance) perform() {
	var sleepers []*writer
	for _, name := range p.sleepers() {
		w := p.start(name, atStep(p.at))
		if p.settle(w) == ended {
			return // it did not come by that step this time: what it did is judged all the same
		}
		w.asleep.Store(true)
		sleepers = append(sleepers, w)
		if p.successor != never || p.free {
			p.lose(w)
		}
	}
	fell := p.clock.tick()
	last := p.succeed()
	woke := p.clock.tick()
	for _, w := range sleepers {
		p.add(history.Op{
			Kind: history.Fault, Writer: w.name, Resource: p.subject.Resource,
			Outcome: history.Accepted, Began: fell, Ended: woke, Note: "asleep",
		})
	}
	p.wakeAll(sleepers)
	if last != nil {
		last.open()
		p.brief(last)
	}
	if p.successor == after && p.free {
		p.brief(p.start(p.last()+"2", nowhere))
	}
}

// settle waits for w to be parked or to end, and for as long as a sleeper may
// keep it waiting.
func (p *performance) settle(w *writer) state { return p.note(w.await(p.pace.bound())) }

// brief waits for w, which may wait for somebody who is parked and has the lock.
func (p *performance) brief(w *writer) { p.note(w.await(p.pace.short())) }

// note remembers that somebody waits here.
func (p *performance) note(s state) state {
	p.pace.isBlocked = p.pace.isBlocked || s == waiting
	return s
}

// succeed lets the successor do its part of what comes before the waking.
func (p *performance) succeed() *writer {
	var w *writer
	switch {
	case p.successor == never:
		return nil
	case p.successor == before && p.free:
		w = p.start(p.last(), nowhere)
	case p.successor == before:
		w = p.start(p.last(), atName(stepRelease))
	case p.free:
		w = p.visit(p.last())
	default:
		w = p.start(p.last(), atName(stepDo))
	}
	p.settle(w)
	return w
}

func (p *performance) wakeAll(sleepers []*writer) {
	if p.reversed {
		sleepers[0], sleepers[1] = sleepers[1], sleepers[0]
	}
	for _, w := range sleepers {
		if p.dies && w.name == "A" {
			p.crash(w)
		} else {
			p.insist(w)
			w.asleep.Store(false)
			w.open()
		}
		p.brief(w)
	}
}
