package history

import "fmt"

// reason judges refusals, each by what can have raised the mark above it.
//
// It is sound: a guard knows of a greater number, or of the same number's other
// holder, only by what somebody had begun before the refusal ended. Everything
// that might be that is let count, whatever became of it.
func reason(s *story) *Violation {
	for _, r := range s.refused {
		if r.cause == nil {
			return violation(fmt.Sprintf("#%d of %s was refused, and nobody had been given a greater number yet.",
				r.op.Number, r.op.Holder), r.grant, r.op)
		}
	}
	return nil
}
