package redisquorum_test

import "fmt"

// ask is the first round at a node. One that comes late still locks.
func (p protocol) ask(w world, h, n int) world {
	a, at := &w.attempts[h], &w.places[n]
	at.holder = uint8(h + 1)
	if a.phase > asking {
		return w
	}
	a.phase = asking
	a.votes |= 1 << n
	if p.oneRound {
		at.counter++
	}
	a.highest = max(a.highest, at.counter)
	return w
}

func (p protocol) mint(w world, h int, ahead uint8) world {
	number := w.attempts[h].highest + 1 + ahead
	if p.oneRound {
		number--
	}
	w.attempts[h] = attempt{phase: writing, number: number}
	return w
}

func (p protocol) write(w world, h, n int) world {
	a, at := &w.attempts[h], &w.places[n]
	at.counter = max(at.counter, a.number)
	if a.phase == writing {
		a.wrote |= 1 << n
	}
	return w
}

func (p protocol) use(w world, h int) world {
	w.attempts[h].phase, w.attempts[h].wrote = holding, 0
	w.last = max(w.last, w.attempts[h].number)
	return w
}

// end is that h uses its number no more. What it has sent may still arrive.
func (p protocol) end(w world, h int) world {
	w.attempts[h] = attempt{phase: over, number: w.attempts[h].number}
	return p.forget(w, h)
}

func (p protocol) drop(w world, n int) world {
	w.places[n].holder = 0
	return w
}

// forget is that no blank node has to wait for h: it has ended, or its lease is
// younger than the loss.
func (p protocol) forget(w world, h int) world {
	for n := range p.nodes {
		w.places[n].pending &^= 1 << h
	}
	return w
}

func (p protocol) renewable(w world, h int) bool {
	locks := 0
	for n := range p.nodes {
		if at := w.places[n]; !at.blank && at.holder == uint8(h+1) {
			locks++
		}
	}
	return locks >= p.need() && p.forget(w, h) != w
}

func (p protocol) lose(w world, n int) world {
	w.losses--
	w.places[n] = place{}
	if p.noMarker {
		return w
	}
	w.places[n].blank = true
	for h, a := range w.attempts {
		if a.phase != idle && a.phase != over {
			w.places[n].pending |= 1 << h
		}
	}
	return w
}

func (p protocol) read(w world, n, other int) world {
	at := &w.places[n]
	at.read |= 1 << other
	at.highest = max(at.highest, w.places[other].counter)
	return w
}

func (p protocol) join(w world, n int) world {
	w.places[n] = place{counter: w.places[n].highest}
	return w
}

// wrong says what must not be, right after a step.
type wrong func(p protocol, before, after world) string

func numbers(p protocol, before, after world) string {
	number := p.used(before, after)
	switch {
	case number == 0 || number > before.last:
		return ""
	case number == before.last:
		return fmt.Sprintf("number %d repeats", number)
	}
	return fmt.Sprintf("number %d comes after %d", number, before.last)
}

func holders(p protocol, before, after world) string {
	now := 0
	for _, a := range after.attempts {
		if a.phase == holding {
			now++
		}
	}
	if now > 1 && p.used(before, after) > 0 {
		return "two hold"
	}
	return ""
}

// used returns the number that came into use by the step, or 0.
func (p protocol) used(before, after world) uint8 {
	for h := range p.holders {
		if before.attempts[h].phase == writing && after.attempts[h].phase == holding {
			return after.attempts[h].number
		}
	}
	return 0
}
