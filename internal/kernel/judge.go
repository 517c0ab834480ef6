package kernel

import (
	"github.com/fencepost/fencepost/simulations/history"
)

// judges reports whether a run is judged by a rule. Those of the resource always
// are; the others not where a lock that has lost its memory, or a clock, may break
// them. While the lock's clock is behind the ends that it has promised, nobody gets anything. And a
// service does not tell its mark: nobody can raise a lock past it whose clock is
// behind it too.
func (w *world) judges(r history.Rule) bool {
	switch r.At {
	case history.AtLock:
		return !w.forgot && !(w.jumped && r.ID == "alone")
	case history.AtAlive:
		return !w.lock.late && !w.isMute
	}
	return true
}

// count returns how many units were acknowledged, and how many of those that were
// applied, acknowledged or not, the rows do not remember: they were overwritten.
func (w *world) count() (acknowledged, lost int) {
	applied := make([]int, len(w.names))
	for i := range w.units {
		u := &w.units[i]
		applied[u.resource] += u.applied
		if w.at(u.op).Outcome == history.Accepted {
			acknowledged++
		}
	}
	for r := range w.names {
		lost += applied[r] - w.store.rows[r].value
	}
	return acknowledged, lost
}

// trace puts down how often each unit, and each attempt that was refused, is
// remembered.
func (w *world) trace() {
	for i := range w.units {
		u := &w.units[i]
		entry := w.at(u.op)
		entry.Traced, entry.Counted = true, u.applied
		for _, o := range u.writes {
			write := w.at(o)
			write.Counted++
			write.Traced = true
		}
	}
}
