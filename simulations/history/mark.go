package history

import "fmt"

// mark judges marks that were read, and accepted claims and writes, by what the
// mark must have been before they began: as high as what was read, as what was
// accepted, and as the least that explains a refusal.
//
// It is sound: each of these had raised the mark, at the latest when it Ended,
// and a mark only rises. A write below an accepted write is left to order.
func mark(s *story) *Violation {
	stale := order(s) != nil
	seen := filter(s.ended, func(op *Op) bool { return wasAccepted(op) || wasSeen(op) })
	looks := filter(s.ops, func(op *Op) bool { return wasAccepted(op) && !(stale && op.Kind == Write) || wasSeen(op) })
	for top, op := range before(seen, looks, byNumber) {
		if op.Number < top.Number {
			return violation(fmt.Sprintf("The mark had been #%d, and after that it was at most #%d.", top.Number, op.Number), top, op)
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
				top.Number, r.cause.Number, op.Number), r.grant, r.cause, top, op)
		}
	}
	return nil
}
