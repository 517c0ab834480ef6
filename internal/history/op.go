package history

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// Kind is the kind of request that a writer made.
type Kind string

// The kinds.
const (
	Acquire Kind = "acquire" // to an issuer, for the resource
	Renew   Kind = "renew"
	Release Kind = "release"
	Claim   Kind = "claim" // to a guard: raise the mark, before reading
	Write   Kind = "write" // one guarded write: one transaction, one request
	Unit    Kind = "unit"  // one unit of work, of which writes are parts
	Read    Kind = "read"  // of the resource's count, in Counted
	Mark    Kind = "mark"  // of the guard's mark, in Number and Holder
	Fault   Kind = "fault" // the writer was paused, cut off, or ended
)

// Outcome is the outcome of a request.
type Outcome string

// The outcomes.
const (
	Accepted Outcome = "accepted" // granted, renewed, applied, seen
	Refused  Outcome = "refused"  // with the promise that nothing was applied
	Unknown  Outcome = "unknown"  // applied or not: the answer is lost or ambiguous
	Failed   Outcome = "failed"   // an ordinary error, with the same promise as Refused
)

// Op is one request of a writer, from its start to its answer. The first six fields are
// for all kinds, the others for the kinds that their comments name. Zero means unknown.
type Op struct {
	Kind     Kind    `json:"kind"`
	Writer   string  `json:"writer"`   // a name for people
	Resource string  `json:"resource"` // the resource of the request
	Outcome  Outcome `json:"outcome"`

	// Began and Ended count from one instant for the whole history. If they cannot be
	// determined exactly, Began is earlier and Ended later than the truth. A request
	// without any answer is Unknown, and its Ended is the time when its caller stopped
	// waiting.
	Began time.Duration `json:"began"`
	Ended time.Duration `json:"ended"`

	// Number and Holder are those of the token. They may be set for an Acquire whose
	// answer was lost if an observer beside the issuer saw them.
	Number int64  `json:"number,omitempty"`
	Holder string `json:"holder,omitempty"`

	// Until is when the lease ends, for an accepted Acquire or Renew.
	Until time.Duration `json:"until,omitempty"`

	// Counted is for a Read how many more units the resource remembers than when the
	// history began. For a Unit or Write it is how often the resource remembers this op,
	// if Traced is true.
	Counted int  `json:"counted,omitempty"`
	Traced  bool `json:"traced,omitempty"`

	// Key names the unit that a Unit tries to apply. Units with one Key are tries of one
	// unit, which is counted once in all, if any of them is accepted. Empty means a unit
	// of its own.
	Key string `json:"key,omitempty"`

	// Seen and Made are the resource's versions that a Write read and made. Versions
	// count from 1.
	Seen int64 `json:"seen,omitempty"`
	Made int64 `json:"made,omitempty"`

	// Note is a remark for people, such as which fault it was. No rule reads it.
	Note string `json:"note,omitempty"`

	tries *attempts // not nil if this op stands for a unit with a Key
}

// attempts are the tries of one unit, sorted by Began. (Op is comparable.)
type attempts struct{ ops []*Op }

// History is a list of ops on some resources, in any order.
type History struct {
	// TTL is the TTL of the leases. Bound is how long a paused holder may block other
	// writers. If one is zero, the rules about it are not judged.
	TTL   time.Duration `json:"ttl,omitempty"`
	Bound time.Duration `json:"bound,omitempty"`
	// Slack is added to both limits, for delays of the machine.
	Slack time.Duration `json:"slack,omitempty"`
	Ops   []Op          `json:"ops"`
}

// OutcomeOf returns the outcome for a history of a guarded write or unit of work that
// returned err. Only Fencepost's own promise that nothing was applied is believed: every
// other error is [Unknown].
func OutcomeOf(err error) Outcome {
	switch {
	case err == nil:
		return Accepted
	case errors.Is(err, guard.ErrUnknown):
		return Unknown
	case guard.IsRefusal(err):
		return Refused
	case errors.Is(err, guard.ErrRetryable), errors.Is(err, guard.ErrEvicted), errors.Is(err, guard.ErrClaimFirst), errors.Is(err, guard.ErrRowNotFound):
		return Failed
	}
	return Unknown
}

// LockOutcomeOf returns the outcome for a history of an issuer's call that returned err.
func LockOutcomeOf(err error) Outcome {
	switch {
	case err == nil:
		return Accepted
	case errors.Is(err, token.ErrLost), errors.Is(err, token.ErrHeld):
		return Refused
	}
	return Unknown
}

var (
	kinds    = []Kind{Acquire, Renew, Release, Claim, Write, Unit, Read, Mark, Fault}
	outcomes = []Outcome{Accepted, Refused, Unknown, Failed}
)

// Check returns an error if op is malformed: an unknown kind or outcome, no writer
// or resource, an end before the beginning, a grant without its token, a number below
// zero, or a field that belongs to another kind.
func (op *Op) Check() error {
	for _, rule := range wellFormed {
		if rule.broken(op) {
			return fmt.Errorf("history: malformed %s of %q on %q from %v to %v: %s",
				op.Kind, op.Writer, op.Resource, op.Began, op.Ended, rule.reason)
		}
	}
	return nil
}

var wellFormed = []struct {
	reason string
	broken func(*Op) bool
}{
	{"no such kind", func(op *Op) bool { return !slices.Contains(kinds, op.Kind) }},
	{"no such outcome", func(op *Op) bool { return !slices.Contains(outcomes, op.Outcome) }},
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
	{"only a unit that is not traced has a key", func(op *Op) bool {
		return op.Key != "" && (op.Kind != Unit || op.Traced)
	}},
	{"only a write has versions", func(op *Op) bool {
		return (op.Seen != 0 || op.Made != 0) && op.Kind != Write
	}},
}
