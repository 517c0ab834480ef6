package history

import "fmt"

// order judges accepted writes by their numbers.
//
// It is sound: what was accepted had raised the mark to its number at the
// latest when it Ended. Whatever Began after that met a mark at least as high,
// and a guard admits nothing below its mark. A transaction that began before
// the newer one ended is not accused: a guard's lock may have put it first.
func order(s *story) *Violation {
	for top, op := range before(filter(s.settled, isWrite), filter(s.accepted, isWrite), byNumber) {
		if op.Number < top.Number {
			return violation(fmt.Sprintf("A write of #%d was accepted, and after that one of #%d.", top.Number, op.Number), top, op)
		}
	}
	return nil
}

func isWrite(op *Op) bool { return op.Kind == Write }
