package history

import (
	"cmp"
	"time"
)

// story is the history of one resource. Its lists are in the order of Began.
type story struct {
	resource          string
	ttl, bound, slack time.Duration

	ops     []*Op
	ended   []*Op // ops in the order of Ended
	grants  []*Op // Acquire
	leases  []*Op // Renew, Release
	changes []*Op // Write, Claim, Unit
	reads   []*Op // Read, Accepted
	marks   []*Op // Mark, Accepted
	faults  []*Op

	units    []*Op // Unit
	accepted []*Op // claims and writes that were, with their numbers
	refused  []refusal

	settled []*Op // accepted, in the order of Ended
	counted []*Op // reads, in the same order
	granted []*Op // grants that were answered, in the same order
}

func stories(h History) []*story {
	var all []*story
	index := make(map[string]*story)
	s := &story{}
	for i := range h.Ops {
		op := &h.Ops[i]
		if len(all) == 0 || op.Resource != s.resource {
			s = index[op.Resource]
		}
		if s == nil {
			s = &story{resource: op.Resource, ttl: h.TTL, bound: h.Bound, slack: h.Slack}
			index[op.Resource] = s
			all = append(all, s)
		}
		s.ops = append(s.ops, op)
	}
	return all
}

func (s *story) fill() {
	s.ops = byTime(s.ops, func(op *Op) time.Duration { return op.Began })
	for _, list := range []*[]*Op{&s.grants, &s.leases, &s.changes, &s.units, &s.accepted} {
		*list = make([]*Op, 0, len(s.ops)/4) // about as many as there will be
	}
	for _, op := range s.ops {
		s.file(op)
	}
	s.ended = byTime(s.ops, func(op *Op) time.Duration { return op.Ended })
	s.settled = filter(s.ended, wasAccepted)
	s.counted = filter(s.ended, wasRead)
	s.granted = filter(s.ended, answeredGrant)
	s.refused = refusals(s)
}

func (s *story) file(op *Op) {
	switch op.Kind {
	case Acquire:
		s.grants = append(s.grants, op)
	case Renew, Release:
		s.leases = append(s.leases, op)
	case Write, Claim, Unit:
		s.changes = append(s.changes, op)
		if op.Kind == Unit {
			s.units = append(s.units, op)
		} else if wasAccepted(op) {
			s.accepted = append(s.accepted, op)
		}
	case Fault:
		s.faults = append(s.faults, op)
	case Read:
		if wasRead(op) {
			s.reads = append(s.reads, op)
		}
	case Mark:
		if wasSeen(op) {
			s.marks = append(s.marks, op)
		}
	}
}

// wasAccepted says that op is a claim or write that was, and names its number.
func wasAccepted(op *Op) bool {
	return (op.Kind == Claim || op.Kind == Write) && op.Outcome == Accepted && op.Number > 0
}

func isChange(op *Op) bool { return op.Kind == Claim || op.Kind == Write || op.Kind == Unit }

func wasRead(op *Op) bool { return op.Kind == Read && op.Outcome == Accepted }

func wasSeen(op *Op) bool { return op.Kind == Mark && op.Outcome == Accepted }

func byBegan(a, b *Op) int  { return cmp.Compare(a.Began, b.Began) }
func byEnded(a, b *Op) int  { return cmp.Compare(a.Ended, b.Ended) }
func byNumber(a, b *Op) int { return cmp.Compare(a.Number, b.Number) }

// filter returns those of ops that keep says, in their order.
func filter(ops []*Op, keep func(*Op) bool) []*Op {
	var kept []*Op
	for _, op := range ops {
		if keep(op) {
			kept = append(kept, op)
		}
	}
	return kept
}
