package history

import (
	"cmp"
	"iter"
	"slices"
	"time"
)

// story is the history of one resource. Its lists are sorted by Began.
type story struct {
	resource          string
	ttl, bound, slack time.Duration

	ops     []*Op
	ended   []*Op // ops sorted by Ended
	grants  []*Op // Acquire
	leases  []*Op // Renew, Release
	changes []*Op // Write, Claim, Unit
	reads   []*Op // Read, Accepted
	marks   []*Op // Mark, Accepted
	faults  []*Op

	units    []*Op // Unit; tries of one unit are one op
	accepted []*Op // accepted claims and writes with known numbers
	refused  []refusal

	settled []*Op // accepted, sorted by Ended
	counted []*Op // reads, sorted by Ended
	granted []*Op // answered grants, sorted by Ended
}

func stories(h History) []*story {
	var all []*story
	index := make(map[string]*story)
	for i := range h.Ops {
		op := &h.Ops[i]
		s := index[op.Resource]
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
	s.ops = sorted(s.ops, byBegan)
	of := func(kinds ...Kind) []*Op {
		return filter(s.ops, func(op *Op) bool { return slices.Contains(kinds, op.Kind) })
	}
	s.grants, s.leases, s.faults = of(Acquire), of(Renew, Release), of(Fault)
	s.changes, s.units = of(Write, Claim, Unit), mergeTries(of(Unit))
	s.accepted = filter(s.ops, wasAccepted)
	s.reads = filter(s.ops, wasRead)
	s.marks = filter(s.ops, wasSeen)
	s.ended = sorted(s.ops, byEnded)
	s.settled = filter(s.ended, wasAccepted)
	s.counted = filter(s.ended, wasRead)
	s.granted = filter(s.ended, answeredGrant)
	s.refused = refusals(s)
}

// mergeTries returns units with one op for all tries of one unit, sorted by Began.
//
// It is sound: only a try that was not refused can have applied the unit. It did so after
// it began, and before any try was accepted.
func mergeTries(units []*Op) []*Op {
	var all []*Op
	merged := make(map[string]*Op)
	for _, op := range units {
		one := merged[op.Key]
		switch {
		case op.Key == "":
			all = append(all, op)
		case one == nil:
			one = &Op{Kind: Unit, Resource: op.Resource, Key: op.Key, tries: &attempts{}}
			merged[op.Key] = one
			all = append(all, one)
			fallthrough
		default:
			one.tries.ops = append(one.tries.ops, op)
		}
	}
	for _, one := range merged {
		one.settle()
	}
	return sorted(all, byBegan)
}

// settle sets the outcome and the times of a unit from its tries.
func (op *Op) settle() {
	first := op.tries.ops[0]
	op.Outcome, op.Began, op.Ended = first.Outcome, first.Began, first.Ended
	for _, try := range op.tries.ops {
		if undone(op) && !undone(try) {
			op.Outcome, op.Began = Unknown, try.Began
		}
		op.Ended = max(op.Ended, try.Ended)
	}
	if accepted := filter(op.tries.ops, func(try *Op) bool { return try.Outcome == Accepted }); len(accepted) > 0 {
		op.Outcome, op.Ended = Accepted, accepted[0].Ended
		for _, try := range accepted {
			op.Ended = min(op.Ended, try.Ended)
		}
	}
}

// wasAccepted reports whether op is an accepted claim or write with a known number.
func wasAccepted(op *Op) bool {
	return (op.Kind == Claim || op.Kind == Write) && op.Outcome == Accepted && op.Number > 0
}

func isChange(op *Op) bool { return op.Kind == Claim || op.Kind == Write || op.Kind == Unit }

func wasRead(op *Op) bool { return op.Kind == Read && op.Outcome == Accepted }

func wasSeen(op *Op) bool { return op.Kind == Mark && op.Outcome == Accepted }

func byBegan(a, b *Op) int  { return cmp.Compare(a.Began, b.Began) }
func byEnded(a, b *Op) int  { return cmp.Compare(a.Ended, b.Ended) }
func byNumber(a, b *Op) int { return cmp.Compare(a.Number, b.Number) }

// filter returns those of ops for which keep returns true, in their order.
func filter(ops []*Op, keep func(*Op) bool) []*Op {
	var kept []*Op
	for _, op := range ops {
		if keep(op) {
			kept = append(kept, op)
		}
	}
	return kept
}

// sorted returns a sorted copy of ops.
func sorted(ops []*Op, compare func(a, b *Op) int) []*Op {
	other := slices.Clone(ops)
	slices.SortFunc(other, compare)
	return other
}

// before yields for each op of later, which is sorted by Began, the greatest op of
// earlier, which is sorted by Ended, that ended before it began. An op that ended at the
// instant at which the other began may have come after it.
func before(earlier, later []*Op, compare func(a, b *Op) int) iter.Seq2[*Op, *Op] {
	return func(yield func(top, op *Op) bool) {
		var top *Op
		for _, op := range later {
			for len(earlier) > 0 && earlier[0].Ended < op.Began {
				if top == nil || compare(earlier[0], top) > 0 {
					top = earlier[0]
				}
				earlier = earlier[1:]
			}
			if top != nil && !yield(top, op) {
				return
			}
		}
	}
}
