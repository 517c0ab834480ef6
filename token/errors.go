package token

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

var (
	// ErrInvalid is found in the error for a token, resource or holder that
	// is incomplete or malformed. See [InvalidError].
	ErrInvalid = errors.New("token: invalid")
	// ErrMissing is found in the error for a context that carries no token of
	// the resource. See [MissingError].
	ErrMissing = errors.New("token: missing")
	// ErrReleased is found when a lease is used after its Release.
	ErrReleased = errors.New("token: lease released")
	// ErrUnreleased is found when the issuer did not confirm a release: the
	// resource may stay held until its ttl ends. The work itself is done.
	ErrUnreleased = errors.New("token: not released")
	// ErrHeld is found when somebody else holds the resource. See [HeldError].
	ErrHeld = errors.New("token: resource is held")
	// ErrLost is found when a lease has ended without being released: it
	// could not be renewed in time, or another holder was seen.
	ErrLost = errors.New("token: lease lost")
	// ErrWaitEnded is found, beside ErrHeld, when [Locker.Wait] passed.
	ErrWaitEnded = errors.New("token: wait ended")
	// ErrForeign is found when a resource is to be acquired under a context
	// that carries a token of it from elsewhere, a request's header say:
	// waiting for it would be waiting for the caller.
	ErrForeign = errors.New("token: context carries a token from elsewhere")
	// ErrSeal is found where a token needs a seal, and has none, or one that is
	// wrong, has expired, or was made with a key nobody knows. See package seal.
	ErrSeal = errors.New("token: no valid seal")
	// ErrExhausted is found when an issuer has no number left to give.
	ErrExhausted = errors.New("token: numbers exhausted")
)

// InvalidError says which part of a token breaks which rule. It is [ErrInvalid].
type InvalidError struct {
	Part  string // "resource", "number", "holder", or "text"
	Value string // what was given, cut to MaxName bytes
	Rule  string // what it must be
}

func (e *InvalidError) Error() string {
	return fmt.Sprintf("token: %s %q %s", e.Part, e.Value, e.Rule)
}

// Unwrap returns [ErrInvalid].
func (e *InvalidError) Unwrap() error { return ErrInvalid }

// MissingError says that a context carries no token of a resource, and which
// it does carry: a typing error in a name shows at once. It is [ErrMissing].
type MissingError struct {
	Resource string
	Have     []string // the resources of the tokens there are
}

func (e *MissingError) Error() string {
	have := "none"
	if len(e.Have) > 0 {
		have = strings.Join(e.Have, ", ")
	}
	return fmt.Sprintf("token: no token for %s in context (it carries: %s)", e.Resource, have)
}

// Unwrap returns [ErrMissing].
func (e *MissingError) Unwrap() error { return ErrMissing }

// HeldError says who holds a resource. It is [ErrHeld].
type HeldError struct {
	Resource string
	Holder   string // empty when the issuer does not tell
	// Remaining is how long the lease lasts if it is not renewed, as the
	// issuer saw it: an upper bound for a sensible wait, no promise.
	Remaining time.Duration
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("token: %s is held by %q for up to %s", e.Resource, e.Holder, e.Remaining)
}

// Unwrap returns [ErrHeld].
func (e *HeldError) Unwrap() error { return ErrHeld }

// LostError says why a lease ended early. It is [ErrLost], and whatever Err is.
type LostError struct {
	Token Token
	Err   error // the last answer of the issuer, or nil
}

func (e *LostError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("token: lease on %s lost", e.Token)
	}
	return fmt.Sprintf("token: lease on %s lost: %v", e.Token, e.Err)
}

// Unwrap returns [ErrLost] and Err.
func (e *LostError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrLost}
	}
	return []error{ErrLost, e.Err}
}
