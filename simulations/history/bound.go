package history

import (
	"fmt"
	"time"
)

// bound judges how long claims, writes and units were kept waiting by another
// writer's fault, where History.Bound says how long is allowed.
//
// It is sound as far as the machine keeps within Slack: the writer with the
// fault was in the middle of guarded work, so that it can be what the other
// waited for, and the other had no fault of its own.
func bound(s *story) *Violation {
	limit := s.bound + s.slack
	if s.bound == 0 || len(s.faults) == 0 {
		return nil
	}
	busy := s.busyFaults(limit)
	own := overlaps(s.faults, s.changes)
	var fault *Op // of those that began in time, the one that ended last
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
			op.Writer, waited, fault.Writer, limit), work, fault, op)
	}
	return nil
}

// busyFaults are those longer than limit that came over a writer in the middle
// of guarded work.
func (s *story) busyFaults(limit time.Duration) []*Op {
	work := overlaps(s.changes, s.faults)
	return filter(s.faults, func(f *Op) bool { return f.Ended-f.Began > limit && work[f] != nil })
}

// overlaps finds for each of ops one of others, of the same writer, that was
// under way at the same time. Both are in the order of Began.
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
