package history

import "fmt"

// OpError says why an op cannot be judged.
type OpError struct {
	Op     Op
	Reason string
}

func (e *OpError) Error() string {
	return fmt.Sprintf("history: malformed %s of %q on %q from %v to %v: %s",
		e.Op.Kind, e.Op.Writer, e.Op.Resource, e.Op.Began, e.Op.Ended, e.Reason)
}

func (k Kind) isKnown() bool {
	switch k {
	case Acquire, Renew, Release, Claim, Write, Unit, Read, Mark, Fault:
		return true
	}
	return false
}

func (o Outcome) isKnown() bool {
	switch o {
	case Accepted, Refused, Unknown, Failed:
		return true
	}
	return false
}

// Check returns an [*OpError] if no writer could have done op: an unknown kind
// or outcome, no writer or resource, an end before the beginning, a grant
// without its token, a number below zero, or a field that belongs to another
// kind.
func (op *Op) Check() error {
	for _, rule := range wellFormed {
		if rule.broken(op) {
			return &OpError{*op, rule.reason}
		}
	}
	return nil
}

var wellFormed = []struct {
	reason string
	broken func(*Op) bool
}{
	{"no such kind", func(op *Op) bool { return !op.Kind.isKnown() }},
	{"no such outcome", func(op *Op) bool { return !op.Outcome.isKnown() }},
	{"no writer", func(op *Op) bool { return op.Writer == "" }},
	{"no resource", func(op *Op) bool { return op.Resource == "" }},
	{"it ended before it began", func(op *Op) bool { return op.Ended < op.Began }},
	{"a number or version below zero", func(op *Op) bool { return op.Number < 0 || op.Seen < 0 || op.Made < 0 }},
	{"granted without a token", func(op *Op) bool {
		return op.Kind == Acquire && op.Outcome == Accepted && (op.Number == 0 || op.Holder == "")
	}},
	{"only acquire and renew have an until", func(op *Op) bool {
		return op.Until != 0 && op.Kind != Acquire && op.Kind != Renew
	}},
	{"only read, unit and write are counted", func(op *Op) bool {
		return (op.Counted != 0 || op.Traced) && op.Kind != Read && op.Kind != Unit && op.Kind != Write
	}},
	{"counted but not traced", func(op *Op) bool {
		return op.Counted != 0 && !op.Traced && op.Kind != Read
	}},
	{"only a write has versions", func(op *Op) bool {
		return (op.Seen != 0 || op.Made != 0) && op.Kind != Write
	}},
}
