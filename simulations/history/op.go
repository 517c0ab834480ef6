package history

import "time"

// Kind is what a writer asked for.
type Kind string

// What is asked for.
const (
	Acquire Kind = "acquire" // asked an issuer for the resource
	Renew   Kind = "renew"
	Release Kind = "release"
	Claim   Kind = "claim" // asked a guard to raise the mark, before reading
	Write   Kind = "write" // one guarded write: one transaction, one request
	Unit    Kind = "unit"  // one unit of work, of which writes are parts
	Read    Kind = "read"  // looked at what the resource remembers, in Counted
	Mark    Kind = "mark"  // looked at the guard's mark, in Number and Holder
	Fault   Kind = "fault" // the writer was paused, cut off, or ended
)

// Outcome is what became of it.
type Outcome string

// What may become of it.
const (
	Accepted Outcome = "accepted" // granted, renewed, applied, seen
	Refused  Outcome = "refused"  // with the promise that nothing was applied
	Unknown  Outcome = "unknown"  // applied or not: no answer, or one that does not say
	Failed   Outcome = "failed"   // an ordinary error, with the same promise as Refused
)

// Op is one thing that a writer asked for, from the question to the answer. The
// fields besides the first six are for the kinds that they name, and zero means
// that nobody knows.
type Op struct {
	Kind     Kind    `json:"kind"`
	Writer   string  `json:"writer"`   // who asked, as people call it
	Resource string  `json:"resource"` // what it was about
	Outcome  Outcome `json:"outcome"`

	// Began and Ended count from one instant for the whole history. Where they
	// cannot be told exactly Began is the earlier and Ended the later. What got
	// no answer at all is Unknown, and Ended is when everybody stopped waiting.
	Began time.Duration `json:"began"`
	Ended time.Duration `json:"ended"`

	// Number and Holder are those of the token. Of an Acquire whose answer was
	// lost on the way, an observer at the issuer's side may still know them.
	Number int64  `json:"number,omitempty"`
	Holder string `json:"holder,omitempty"`

	// Until is when the lease ends, of an Acquire or Renew that was Accepted.
	Until time.Duration `json:"until,omitempty"`

	// Counted is how many units the resource remembers, of a Read, more than
	// when the history began; and how many times it remembers this one, of a
	// Unit or Write, where Traced says that this was looked for.
	Counted int  `json:"counted,omitempty"`
	Traced  bool `json:"traced,omitempty"`

	// Seen and Made are the resource's version that a Write read, and the one
	// that it made. Versions count from 1.
	Seen int64 `json:"seen,omitempty"`
	Made int64 `json:"made,omitempty"`

	// Note is for readers: which fault it was, say. No rule looks at it.
	Note string `json:"note,omitempty"`
}
