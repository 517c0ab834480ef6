package dst

import (
	"errors"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/history"
)

// record is the history of the run, which is judged at the end.
type record struct{ ops []history.Op }

// op is the index of one op in the record.
type op int

// begin records that an op begins.
func (w *world) begin(kind history.Kind, who string, resource int) op {
	w.record.ops = append(w.record.ops, history.Op{
		Kind: kind, Writer: who, Resource: w.names[resource], Began: w.now,
	})
	return op(len(w.record.ops) - 1)
}

func (w *world) at(o op) *history.Op { return &w.record.ops[o] }

// end records the outcome of an op, once.
func (w *world) end(o op, outcome history.Outcome) *history.Op {
	entry := w.at(o)
	if entry.Outcome == "" {
		entry.Outcome, entry.Ended = outcome, w.now
	}
	return entry
}

// endOps ends all ops of a process that has died, with an unknown outcome.
func (w *world) endOps(who string) {
	for o := range w.record.ops {
		if w.record.ops[o].Writer == who {
			w.end(op(o), history.Unknown)
		}
	}
}

// note records an op that has already ended.
func (w *world) note(kind history.Kind, who string, resource int) *history.Op {
	o := w.begin(kind, who, resource)
	return w.end(o, history.Accepted)
}

// close completes the record when no events are left.
func (w *world) close() {
	for i := range w.record.ops {
		entry := &w.record.ops[i]
		if entry.Outcome == "" {
			entry.Outcome, entry.Ended = history.Unknown, w.now
		}
		if entry.Kind == history.Acquire && entry.Outcome == history.Unknown && entry.Number == 0 {
			entry.Outcome = history.Failed // it was not granted, and cannot be granted later
		}
	}
	w.countWrites()
	for r := range w.names {
		w.look(r)
	}
}

// look records the resource and its mark.
func (w *world) look(resource int) {
	w.note(history.Read, "judge", resource).Counted = w.store.rows[resource].value
	if mark := w.store.marks[resource]; mark.Number > 0 {
		seen := w.note(history.Mark, "judge", resource)
		seen.Number, seen.Holder = mark.Number, mark.Holder
	}
}

// judges reports whether a run is judged by a rule. The rules of the resource always
// apply. The others do not apply if a lock that has lost its memory, or whose clock has
// jumped, may break them. While the lock's clock is behind the ends of the leases it has
// granted, no holder gets the lock. If a service does not report its mark, the lock
// cannot be raised above the mark until its clock has reached it.
func (w *world) judges(r history.Rule) bool {
	switch r.At {
	case history.AtLock:
		return !w.forgot && !(w.jumped && r.ID == "mutual-exclusion")
	case history.AtProgress:
		return !w.lock.late && !w.hiddenMark
	}
	return true
}

// count returns how many units were acknowledged, and how many applied units were
// overwritten, acknowledged or not.
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

// countWrites records how often each unit and each attempt was applied.
func (w *world) countWrites() {
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

// outcome returns the outcome for an answer.
func outcome(err error) history.Outcome {
	switch {
	case err == nil:
		return history.Accepted
	case isLoss(err), errors.Is(err, guard.ErrStale):
		return history.Refused
	}
	return history.Failed
}
