package kernel

import (
	"github.com/fencepost/fencepost/simulations/history"
)

// record is what everybody did, as it will be judged.
type record struct{ ops []history.Op }

// op is one in the record.
type op int

// begin puts down that who asks for something now.
func (w *world) begin(kind history.Kind, who string, resource int) op {
	w.record.ops = append(w.record.ops, history.Op{
		Kind: kind, Writer: who, Resource: w.names[resource], Began: w.now,
	})
	return op(len(w.record.ops) - 1)
}

func (w *world) at(o op) *history.Op { return &w.record.ops[o] }

// end puts down what became of it, once.
func (w *world) end(o op, outcome history.Outcome) *history.Op {
	entry := w.at(o)
	if entry.Outcome == "" {
		entry.Outcome, entry.Ended = outcome, w.now
	}
	return entry
}

// hush puts down that who has died, and nobody waits for its answers.
func (w *world) hush(who string) {
	for o := range w.record.ops {
		if w.record.ops[o].Writer == who {
			w.end(op(o), history.Unknown)
		}
	}
}

// note puts down something that takes no time, or has taken its time.
func (w *world) note(kind history.Kind, who string, resource int) *history.Op {
	o := w.begin(kind, who, resource)
	return w.end(o, history.Accepted)
}

// close puts down what is left to be said when nothing happens any more.
func (w *world) close() {
	for i := range w.record.ops {
		entry := &w.record.ops[i]
		if entry.Outcome == "" {
			entry.Outcome, entry.Ended = history.Unknown, w.now
		}
		if entry.Kind == history.Acquire && entry.Outcome == history.Unknown && entry.Number == 0 {
			entry.Outcome = history.Failed // it was not granted, and will not be
		}
	}
	w.trace()
	for r := range w.names {
		w.look(r)
	}
}

// look reads the resource and its mark.
func (w *world) look(resource int) {
	w.note(history.Read, "judge", resource).Counted = w.store.rows[resource].value
	if mark := w.store.marks[resource]; mark.Number > 0 {
		seen := w.note(history.Mark, "judge", resource)
		seen.Number, seen.Holder = mark.Number, mark.Holder
	}
}
