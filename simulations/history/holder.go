package history

import "fmt"

// holder judges what was accepted, and marks that were read, by the holders of
// equal numbers.
//
// It is sound: a mark that stands at a number stands there for one holder until
// it rises, and it does not come back. So neither time nor order matter.
func holder(s *story) *Violation {
	first := make(map[int64]*Op)
	for _, ops := range [][]*Op{s.accepted, s.marks} {
		for _, op := range ops {
			if op.Holder == "" {
				continue
			}
			if other := first[op.Number]; other == nil {
				first[op.Number] = op
			} else if other.Holder != op.Holder {
				return violation(fmt.Sprintf("#%d was accepted from %s and from %s.", op.Number, other.Holder, op.Holder), other, op)
			}
		}
	}
	return nil
}
