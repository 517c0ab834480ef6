package kernel

import (
	"errors"

	"github.com/fencepost/fencepost/simulations/history"
)

// Run is what became of one seed.
type Run struct {
	Seed         uint64
	History      history.History
	Acknowledged int // units of work
	Lost         int // applied, and overwritten by who had not read it; acknowledged or not
	Violations   []history.Violation
}

// Player plays one seed after another in the same memory: what it returned is
// overwritten by what it plays next. The zero Player is ready.
type Player struct {
	agenda agenda
	ops    []history.Op
}

// Play runs one seed and judges it. An error is a mistake of the kernel's own.
func (p *Player) Play(seed uint64, s Setting) (Run, error) {
	w := newWorld(seed, s)
	w.agenda, w.record.ops = p.agenda.emptied(), p.ops[:0]
	w.begins()
	ended := w.run()
	p.agenda, p.ops = w.agenda, w.record.ops
	r := Run{Seed: seed, History: history.History{TTL: ttl, Slack: slack, Ops: w.record.ops}}
	r.Acknowledged, r.Lost = w.count()
	var err error
	r.Violations, err = history.CheckOnly(r.History, w.judges)
	return r, errors.Join(ended, err)
}
