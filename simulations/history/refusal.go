package history

import (
	"math"
	"slices"
	"time"
)

const never = time.Duration(math.MaxInt64)

// refusal is a refused claim, write or unit of a token that was granted.
type refusal struct {
	op    *Op
	grant *Op // of op's token
	cause *Op // the least that explains it; nil if nothing does
}

// refusals finds those that can be judged: of tokens that were granted, since a
// forged one may be refused for being forged, and not after a grant whose
// number nobody knows, since that may explain anything.
func refusals(s *story) []refusal {
	refused := filter(s.changes, func(op *Op) bool { return op.Outcome == Refused && op.Number > 0 })
	if len(refused) == 0 {
		return nil
	}
	known := newCauses(raisers(s))
	granted := grantsOf(s)
	hidden := firstHidden(s)
	var judged []refusal
	for _, op := range refused {
		if grant := granted[bearer{op.Number, op.Holder}]; grant != nil && op.Ended < hidden {
			judged = append(judged, refusal{op, grant, known.of(op)})
		}
	}
	return judged
}

type bearer struct {
	number int64
	holder string
}

// grantsOf returns the first grant of each token, answered or lost.
func grantsOf(s *story) map[bearer]*Op {
	granted := make(map[bearer]*Op, len(s.grants))
	for _, op := range s.grants {
		key := bearer{op.Number, op.Holder}
		if numbered(op) && granted[key] == nil {
			granted[key] = op
		}
	}
	return granted
}

// firstHidden returns when the first grant began whose number nobody knows.
func firstHidden(s *story) time.Duration {
	for _, op := range s.grants {
		if op.Outcome == Unknown && op.Number == 0 {
			return op.Began
		}
	}
	return never
}

// raisers are all that can have raised the mark: what was granted, since an
// issuer may claim as it grants; claims, writes and units, unless they were
// refused; and the mark at which the history starts.
func raisers(s *story) []*Op {
	owners := s.owners()
	possible := func(op *Op) bool { return op.Number > 0 && op.Outcome != Refused && owners.allow(op) }
	return slices.Concat(filter(s.grants, possible), filter(s.changes, possible), s.start())
}

// owners says from which holder a number was accepted, or with which a mark was
// read: it cannot have been at the mark for another.
type owners map[int64]*Op

func (s *story) owners() owners {
	from := make(owners)
	for _, op := range slices.Concat(s.marks, s.accepted) {
		if op.Holder != "" {
			from[op.Number] = op
		}
	}
	return from
}

func (from owners) allow(op *Op) bool {
	owner := from[op.Number]
	return owner == nil || op.Holder == "" || owner.Holder == op.Holder ||
		op.Kind != Acquire && op.Kind != Unit && op.Outcome == Accepted
}

// start returns the mark that was read before anything else happened.
func (s *story) start() []*Op {
	first := never
	for _, ops := range [][]*Op{s.grants, s.changes} {
		if len(ops) > 0 {
			first = min(first, ops[0].Began)
		}
	}
	return filter(s.marks, func(op *Op) bool { return op.Ended < first && op.Number > 0 })
}
