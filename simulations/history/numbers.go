package history

import "fmt"

// numbers judges grants: those that were answered, and those whose answer was
// lost but whose number an observer knows.
//
// It is sound: a number is made inside the decision that grants, so between
// Began and Ended. A grant whose answer was lost may have been made after its
// asker gave up, so nothing is known to come after it. A holder who asks again
// may be told its number again.
func numbers(s *story) *Violation {
	known := filter(s.grants, numbered)
	if v := twice(filter(known, answeredGrant)); v != nil {
		return v
	}
	for top, op := range before(s.granted, known, byNumber) {
		if op.Number < top.Number {
			return violation(fmt.Sprintf("#%d was granted after #%d.", op.Number, top.Number), top, op)
		}
	}
	return nil
}

// numbered says that op is a grant, or may be one, and its number is known.
func numbered(op *Op) bool {
	return op.Number > 0 && (op.Outcome == Accepted || op.Outcome == Unknown)
}

func answeredGrant(op *Op) bool { return op.Kind == Acquire && op.Outcome == Accepted }

func twice(answered []*Op) *Violation {
	first := make(map[int64]*Op, len(answered))
	for _, op := range answered {
		other := first[op.Number]
		if other == nil {
			first[op.Number] = op
		} else if other.Holder != op.Holder {
			return violation(fmt.Sprintf("#%d was granted to %s and to %s.", op.Number, other.Holder, op.Holder), other, op)
		}
	}
	return nil
}
