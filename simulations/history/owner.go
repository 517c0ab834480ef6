package history

import (
	"fmt"
	"math"
)

// owner judges accepted renewals and releases, by holder: an issuer may give a
// holder who asks again a greater number, and may release by the holder alone.
//
// It is sound: a grant that ended before the question began, with a number
// greater than any the asker can have been granted by then, had taken the
// resource from the asker. Each grant to the asker that had begun counts, also
// one whose answer was lost. And what was released before the question began is
// nobody's, unless the asker was granted it again.
func owner(s *story) *Violation {
	asked := filter(s.leases, func(op *Op) bool { return op.Outcome == Accepted && op.Holder != "" })
	own := ownGrants(s, asked)
	for _, op := range asked {
		if own[op] == nil {
			return violation(fmt.Sprintf("%s was never granted, and its %s was accepted.", op.Holder, op.Kind), op)
		}
	}
	for top, op := range before(s.granted, asked, byNumber) {
		if top.Number > numberOf(own[op]) {
			return violation(fmt.Sprintf("#%d was granted to %s, and after that a %s by %s was accepted.",
				top.Number, top.Holder, op.Kind, op.Holder), own[op], top, op)
		}
	}
	return afterRelease(s, asked)
}

// ownGrants finds the greatest grant that each op's holder can have had when it
// ended.
func ownGrants(s *story, asked []*Op) map[*Op]*Op {
	begun := filter(s.grants, func(op *Op) bool { return op.Outcome == Accepted || op.Outcome == Unknown })
	best, own := make(map[string]*Op), make(map[*Op]*Op, len(asked))
	for _, op := range sorted(asked, byEnded) {
		for len(begun) > 0 && begun[0].Began <= op.Ended {
			grant := begun[0]
			if other := best[grant.Holder]; other == nil || numberOf(grant) > numberOf(other) {
				best[grant.Holder] = grant
			}
			begun = begun[1:]
		}
		if own[op] = best[op.Holder]; best[""] != nil {
			own[op] = best[""] // nobody knows whose that was
		}
	}
	return own
}

// numberOf takes a number that nobody knows for the greatest.
func numberOf(grant *Op) int64 {
	if grant.Number == 0 || grant.Holder == "" {
		return math.MaxInt64
	}
	return grant.Number
}
