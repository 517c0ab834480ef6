package history

import "fmt"

// burnt judges the numbers of grants whose answer was lost.
//
// It is sound: an observer saw the number on its way to one holder, so the
// issuer had made it for that holder. Nobody knows when, and it does not matter.
func burnt(s *story) *Violation {
	lost := make(map[int64]*Op)
	for _, op := range s.grants {
		if op.Outcome == Unknown && op.Number > 0 && op.Holder != "" && lost[op.Number] == nil {
			lost[op.Number] = op
		}
	}
	for _, op := range s.grants {
		if other := lost[op.Number]; other != nil && numbered(op) && op.Holder != "" && op.Holder != other.Holder {
			return violation(fmt.Sprintf("#%d went to %s, whose answer was lost, and to %s.", op.Number, other.Holder, op.Holder), other, op)
		}
	}
	return nil
}
