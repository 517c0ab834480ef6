package history

import (
	"fmt"
	"slices"
	"time"
)

// liveness judges how soon after the last fault a write is accepted again. It applies if
// there were faults and History.TTL is set.
//
// It is sound if the machine's delays, and the work under a lease before its write, stay
// within Slack. It accuses only if one writer was acquiring or working all the time,
// without a pause longer than the TTL, and no write or unit can have been accepted.
func liveness(s *story) *Violation {
	if s.ttl == 0 || len(s.faults) == 0 {
		return nil
	}
	fault := slices.MaxFunc(s.faults, byEnded)
	limit := 2*s.ttl + s.slack
	first := s.firstAfter(fault.Ended)
	for _, run := range s.runs(fault.Ended) {
		late := max(fault.Ended, run.ops[0].Began) + limit
		if run.ended <= late || first != nil && wrote(first) <= late {
			continue
		}
		return violation(fmt.Sprintf("%s tried all the while after %s's fault, and no write was accepted within %v.",
			run.ops[0].Writer, fault.Writer, limit), append(s.few(run.ops, late), fault, first)...).
			expect("A write should have been accepted within %v.", limit)
	}
	return nil
}

// firstAfter returns the first write or unit that was or may have been accepted after the
// fault, or nil.
func (s *story) firstAfter(fault time.Duration) *Op {
	var first *Op
	for _, op := range s.changes {
		if op.Kind != Claim && wrote(op) >= fault && (first == nil || wrote(op) < wrote(first)) {
			first = op
		}
	}
	return first
}

// wrote returns when op wrote, if it may have: the latest time if it was accepted, the
// earliest time if its outcome is unknown.
func wrote(op *Op) time.Duration {
	switch op.Outcome {
	case Accepted:
		return op.Ended
	case Unknown:
		return op.Began
	}
	return -never
}

// run is what one writer tried without a pause.
type run struct {
	ops   []*Op // in the order of Began
	ended time.Duration
}

// runs returns what each writer tried after the fault, beginning with an Acquire.
func (s *story) runs(fault time.Duration) []*run {
	last := make(map[string]*run)
	var all []*run
	for _, op := range s.ops {
		r := last[op.Writer]
		switch {
		case op.Ended < fault || !tries(op):
		case r != nil && op.Began-r.ended <= s.ttl:
			r.ops, r.ended = append(r.ops, op), max(r.ended, op.Ended)
		case op.Kind == Acquire:
			last[op.Writer] = &run{[]*Op{op}, op.Ended}
			all = append(all, last[op.Writer])
		}
	}
	return all
}

func tries(op *Op) bool { return op.Kind == Acquire || isChange(op) }

// few leaves out of tries the ops that are not needed to show that there was no pause
// until late.
func (s *story) few(tries []*Op, late time.Duration) []*Op {
	kept := tries[:1:1]
	for last := kept[0]; last.Ended <= late; {
		next := last
		for _, op := range tries {
			if op.Began-last.Ended <= s.ttl && op.Ended > next.Ended {
				next = op
			}
		}
		kept, last = append(kept, next), next
	}
	return kept
}

// boundedBlocking judges how long claims, writes and units were blocked by another
// writer's fault. It applies if History.Bound is set.
//
// It is sound if the machine's delays stay within Slack: the writer with the fault was in
// the middle of guarded work, so the blocked writer can have waited for it, and the
// blocked writer had no fault of its own.
func boundedBlocking(s *story) *Violation {
	limit := s.bound + s.slack
	if s.bound == 0 || len(s.faults) == 0 {
		return nil
	}
	busy := s.busyFaults(limit)
	own := overlaps(s.faults, s.changes)
	var fault *Op // the last to end among the faults that began in time
	for _, op := range filter(s.ended, isChange) {
		for ; len(busy) > 0 && busy[0].Began < op.Ended-limit; busy = busy[1:] {
			if fault == nil || busy[0].Ended > fault.Ended {
				fault = busy[0]
			}
		}
		if op.Ended-op.Began <= limit || fault == nil || fault.Ended-op.Began <= limit || own[op] != nil {
			continue
		}
		work := overlaps(filter(s.changes, func(w *Op) bool { return w.Writer == fault.Writer }), []*Op{fault})[fault]
		waited := min(op.Ended, fault.Ended) - max(op.Began, fault.Began)
		return violation(fmt.Sprintf("%s waited %v for %s, which was in its way; the bound is %v.",
			op.Writer, waited, fault.Writer, limit), work, fault, op).
			expect("%s should have waited %v at most.", requestOf(op), limit)
	}
	return nil
}

// busyFaults returns the faults longer than limit that hit a writer in the middle of
// guarded work.
func (s *story) busyFaults(limit time.Duration) []*Op {
	work := overlaps(s.changes, s.faults)
	return filter(s.faults, func(f *Op) bool { return f.Ended-f.Began > limit && work[f] != nil })
}

// overlaps maps each of ops to one of others by the same writer that was under way at the
// same time. Both are sorted by Began.
func overlaps(others, ops []*Op) map[*Op]*Op {
	found := make(map[*Op]*Op)
	longest := make(map[string]*Op)
	for _, op := range sorted(ops, byEnded) {
		for len(others) > 0 && others[0].Began <= op.Ended {
			if last := longest[others[0].Writer]; last == nil || others[0].Ended > last.Ended {
				longest[others[0].Writer] = others[0]
			}
			others = others[1:]
		}
		if last := longest[op.Writer]; last != nil && last.Ended >= op.Began {
			found[op] = last
		}
	}
	return found
}
