package history

import (
	"fmt"
	"slices"
	"time"
)

// alive judges, where there were faults and History.TTL says how long leases
// last, how soon after the last of them somebody writes again.
//
// It is sound as far as the machine, and what is done under a lease before it is
// written, keep within Slack: it accuses only where
// one writer was asking for the resource, or at work, all the while, with no
// pause longer than the ttl, and nobody's write or unit can have been accepted.
func alive(s *story) *Violation {
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
		return violation(fmt.Sprintf("%s tried all the while after %s's fault, and nobody wrote within %v.",
			run.ops[0].Writer, fault.Writer, limit), append(s.few(run.ops, late), fault, first)...)
	}
	return nil
}

// firstAfter returns the write or unit that was accepted first after the fault,
// or may have been, or nil.
func (s *story) firstAfter(fault time.Duration) *Op {
	var first *Op
	for _, op := range s.changes {
		if op.Kind != Claim && wrote(op) >= fault && (first == nil || wrote(op) < wrote(first)) {
			first = op
		}
	}
	return first
}

// wrote returns when op wrote, if it may have: at the latest if it was accepted,
// at the earliest if nobody knows.
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

// runs returns what each writer tried from the fault on, from an Acquire on.
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

// few leaves out of tries what is not needed to have no pause until late.
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
