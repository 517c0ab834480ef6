package history

import (
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"
)

// OpinionError is what the second opinion has against a history.
type OpinionError struct {
	Resource string
	// Unknown says that time ran out before there was an answer. That is no
	// pass: try a smaller history, or for longer.
	Unknown bool
}

func (e *OpinionError) Error() string {
	if e.Unknown {
		return fmt.Sprintf("history: no second opinion of %q in time", e.Resource)
	}
	return fmt.Sprintf("history: %q cannot have answered like this, one question after the other", e.Resource)
}

// SecondOpinion judges h by another method, for cross-checking [Check]: it looks
// for an order of the ops, within their times, in which one mark, one count and
// one version explain every answer. It is nil if there is one, an
// [*OpinionError] if there is none or the timeout comes first, and an
// [*OpError] if h is malformed. A timeout of 0 or less is none at all, and
// refused.
//
// It takes exponential time in the worst case, which is an incorrect history of
// many ops at once, or one in which many writes are Unknown and versions are told:
// it is for some hundred ops of a few writers, which take milliseconds. The rules
// order, holder, once, reason, mark, versions, and trace of units are both
// judges'; the others are Check's alone.
func SecondOpinion(h History, timeout time.Duration) error {
	if timeout <= 0 {
		return fmt.Errorf("history: a second opinion takes time, not %v", timeout)
	}
	if err := h.check(); err != nil {
		return err
	}
	deadline := time.Now().Add(timeout)
	for _, s := range stories(h) {
		s.fill()
		for _, spec := range []specification{countSpec(s), markSpec(s)} {
			left := max(time.Until(deadline), time.Nanosecond)
			switch porcupine.CheckOperationsTimeout(spec.model.ToModel(), spec.ops, left) {
			case porcupine.Ok:
			case porcupine.Illegal:
				return &OpinionError{Resource: s.resource}
			default:
				return &OpinionError{Resource: s.resource, Unknown: true}
			}
		}
	}
	return nil
}

// specification is a model as a value, and what it is to explain. A resource has
// two, which share nothing: a history of two objects is linearizable if that of
// each is (Herlihy and Wing, 1990, theorem 1).
type specification struct {
	model porcupine.NondeterministicModel
	ops   []porcupine.Operation
}

// question is op as a model sees it.
type question struct {
	op     *Op
	causes []*Op // of a refusal: what may have raised the mark before
}

func (s *specification) ask(q question, ended time.Duration) {
	s.ops = append(s.ops, porcupine.Operation{Input: q, Call: int64(q.op.Began), Return: int64(ended)})
}
