package history

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"time"
)

// order judges accepted writes by their numbers.
//
// It is sound: an accepted write had raised the mark to its number when it Ended, at the
// latest. A write that Began after that met a mark at least as high, and a guard admits
// nothing below its mark. A transaction that began before the newer one ended is not
// accused: the guard's lock may have put it first.
func order(s *story) *Violation {
	for top, op := range before(filter(s.settled, isWrite), filter(s.accepted, isWrite), byNumber) {
		if op.Number < top.Number {
			return violation(fmt.Sprintf("A write of #%d was accepted, and after that one of #%d.", top.Number, op.Number), top, op).
				expect("%s should have been refused: the mark was at least #%d.", requestOf(op), top.Number)
		}
	}
	return nil
}

func isWrite(op *Op) bool { return op.Kind == Write }

// holder judges accepted ops and marks that were read by the holders of equal numbers.
//
// It is sound: a mark with a number belongs to one holder until the mark rises, and it
// does not fall. So neither time nor order matters.
func holder(s *story) *Violation {
	other, op := shared(slices.Concat(s.accepted, s.marks))
	if op == nil {
		return nil
	}
	return violation(fmt.Sprintf("#%d was accepted from %s and from %s.", op.Number, other.Holder, op.Holder), other, op).
		expect("#%d should have been accepted from one of the two holders only, and refused from the other.", op.Number)
}

// shared returns the first op whose number an earlier one has with another holder, and
// that one. Ops without a holder do not count.
func shared(ops []*Op) (earlier, op *Op) {
	first := make(map[int64]*Op, len(ops))
	for _, op := range ops {
		if op.Holder == "" {
			continue
		}
		if other := first[op.Number]; other == nil {
			first[op.Number] = op
		} else if other.Holder != op.Holder {
			return other, op
		}
	}
	return nil, nil
}

// mark judges accepted claims and writes, and marks that were read, by what the mark must
// have been before they began: as high as every mark that was read, as every accepted op,
// and as the least cause of every refusal.
//
// It is sound: each of these had raised the mark when it Ended, at the latest, and a mark
// only rises. A write below an accepted write is left to order.
func mark(s *story) *Violation {
	stale := order(s) != nil
	seen := filter(s.ended, func(op *Op) bool { return wasAccepted(op) || wasSeen(op) })
	looks := filter(s.ops, func(op *Op) bool { return wasAccepted(op) && !(stale && op.Kind == Write) || wasSeen(op) })
	for top, op := range before(seen, looks, byNumber) {
		if op.Number < top.Number {
			return violation(fmt.Sprintf("The mark had been #%d, and after that it was at most #%d.", top.Number, op.Number), top, op).expect("%s", notBelow(op, top.Number))
		}
	}
	return markAfterRefusal(s, looks)
}

func markAfterRefusal(s *story, looks []*Op) *Violation {
	because := make(map[*Op]refusal, len(s.refused))
	var refused []*Op
	for _, r := range s.refused {
		if r.cause != nil {
			because[r.op] = r
			refused = append(refused, r.op)
		}
	}
	byCause := func(a, b *Op) int { return byNumber(because[a].cause, because[b].cause) }
	for top, op := range before(sorted(refused, byEnded), looks, byCause) {
		if r := because[top]; op.Number < r.cause.Number {
			return violation(fmt.Sprintf("#%d was refused, so the mark was at least #%d, and after that it was at most #%d.",
				top.Number, r.cause.Number, op.Number), r.grant, r.cause, top, op).expect("%s", notBelow(op, r.cause.Number))
		}
	}
	return nil
}

// spuriousRefusal judges each refusal by the ops that can have raised the mark above it.
//
// It is sound: a guard can see a greater number, or another holder of the same number,
// only from an op that began before the refusal ended. All these ops count, whatever
// their outcome.
func spuriousRefusal(s *story) *Violation {
	for _, r := range s.refused {
		if r.cause == nil {
			return violation(fmt.Sprintf("#%d of %s was refused, and no greater number had been granted yet.",
				r.op.Number, r.op.Holder), r.grant, r.op).
				expect("%s should not have been refused: the mark was at most #%d.", requestOf(r.op), r.op.Number)
		}
	}
	return nil
}

const never = time.Duration(math.MaxInt64)

// refusal is a refused claim, write or unit of a token that was granted.
type refusal struct {
	op    *Op
	grant *Op // of op's token
	cause *Op // the op with the least number that explains it; nil if there is none
}

// refusals returns the refusals that can be judged. The refused token must have been
// granted, since a forged token may be refused for being forged. No grant with an unknown
// number may have begun before the refusal, since it would explain any refusal.
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

// firstHidden returns when the first grant with an unknown number began.
func firstHidden(s *story) time.Duration {
	for _, op := range s.grants {
		if op.Outcome == Unknown && op.Number == 0 {
			return op.Began
		}
	}
	return never
}

// raisers returns all ops that can have raised the mark: grants, since an issuer may
// claim as it grants; claims, writes and units that were not refused; and the mark at
// which the history starts.
func raisers(s *story) []*Op {
	owners := s.owners()
	possible := func(op *Op) bool { return op.Number > 0 && op.Outcome != Refused && owners.allow(op) }
	return slices.Concat(filter(s.grants, possible), filter(s.changes, possible), s.start())
}

// owners maps a number to an op that shows its holder: an accepted op, or a mark that was
// read. The number cannot have been at the mark for another holder.
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

// start returns the mark that was read before all other ops.
func (s *story) start() []*Op {
	first := never
	for _, ops := range [][]*Op{s.grants, s.changes} {
		if len(ops) > 0 {
			first = min(first, ops[0].Began)
		}
	}
	return filter(s.marks, func(op *Op) bool { return op.Ended < first && op.Number > 0 })
}

// causes finds for a refused token the least number that can have raised the mark above
// it.
type causes struct {
	numbers []int64         // sorted
	first   []*Op           // for each number, the op that began first
	other   []*Op           // for each number, the first op of another holder
	tree    []time.Duration // least Began of first, as a tree: 1 is the root
	size    int
}

func newCauses(ops []*Op) *causes {
	ops = sorted(ops, byBegan)
	slices.SortStableFunc(ops, byNumber)
	c := &causes{}
	for _, op := range ops {
		last := len(c.numbers) - 1
		if last < 0 || c.numbers[last] != op.Number {
			c.numbers = append(c.numbers, op.Number)
			c.first = append(c.first, op)
			c.other = append(c.other, nil)
		} else if c.other[last] == nil && op.Holder != c.first[last].Holder {
			c.other[last] = op
		}
	}
	c.grow()
	return c
}

func (c *causes) grow() {
	for c.size = 1; c.size < len(c.first); c.size *= 2 {
	}
	c.tree = make([]time.Duration, 2*c.size)
	for i := range c.size {
		c.tree[c.size+i] = never
		if i < len(c.first) {
			c.tree[c.size+i] = c.first[i].Began
		}
	}
	for i := c.size - 1; i > 0; i-- {
		c.tree[i] = min(c.tree[2*i], c.tree[2*i+1])
	}
}

// of returns the op that can have refused op: begun before op ended, with the same number
// and another holder, or with the least greater number. It returns nil if there is none.
func (c *causes) of(op *Op) *Op {
	at := sort.Search(len(c.numbers), func(i int) bool { return c.numbers[i] >= op.Number })
	if at < len(c.numbers) && c.numbers[at] == op.Number {
		for _, same := range []*Op{c.first[at], c.other[at]} {
			if same != nil && same.Holder != op.Holder && same.Began <= op.Ended {
				return same
			}
		}
		at++
	}
	return c.next(at, op.Ended)
}

// next returns the first op with number at or later that began by ended.
func (c *causes) next(at int, ended time.Duration) *Op {
	if at >= len(c.first) {
		return nil
	}
	node := c.size + at
	for c.tree[node] > ended {
		for node&1 == 1 { // the right child: its parent has no further child
			node /= 2
		}
		if node == 0 {
			return nil
		}
		node++ // to the right sibling
	}
	for node < c.size {
		if node *= 2; c.tree[node] > ended {
			node++
		}
	}
	return c.first[node-c.size]
}
