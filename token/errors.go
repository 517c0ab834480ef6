package token

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

var (
	// ErrInvalid is returned when a token, resource or holder is incomplete or
	// malformed. See [InvalidError].
	ErrInvalid = errors.New("token: invalid")
	// ErrMissing is returned when a context carries no token of the resource. See
	// [MissingError].
	ErrMissing = errors.New("token: missing")
	// ErrReleased is returned when a lease is used after its Release.
	ErrReleased = errors.New("token: lease released")
	// ErrHeld is returned when another holder has the resource. See [HeldError].
	ErrHeld = errors.New("token: resource is held")
	// ErrLost is returned when a lease ended without being released: it was not renewed
	// in time, its HoldAtMost has passed, or the issuer reports that the holder does not
	// have the resource. See [LostError].
	ErrLost = errors.New("token: lease lost")
	// ErrUnreachable is returned when an issuer cannot be reached, is starting or
	// stopping, or takes no writes for now, as a standby. A retry may help. The call may
	// have taken effect.
	ErrUnreachable = errors.New("token: the issuer cannot be reached")
	// ErrBadSignature is returned when a token must be signed, and its signature is
	// missing, wrong, expired, or made with an unknown key. See package
	// [github.com/fencepost/fencepost/httpguard/signature].
	ErrBadSignature = errors.New("token: no valid signature")
	// ErrExhausted is returned when an issuer has no greater number left.
	ErrExhausted = errors.New("token: numbers exhausted")
	// ErrTooFarAhead is returned when [Recoverer.Recover] is called with a number more
	// than [MaxAhead] above the issuer's clock. An honest issuer cannot have granted such
	// a number. Nothing was raised.
	ErrTooFarAhead = errors.New("token: number is more than a day ahead of the issuer's clock")
)

// InvalidError reports which part of a token breaks which rule. It wraps [ErrInvalid].
type InvalidError struct {
	Part  string // "resource", "number", "holder", or "text"
	Value string // the invalid value, cut to MaxNameBytes bytes
	Rule  string // what the part must be, as in "must not be empty"
}

func (e *InvalidError) Error() string {
	return fmt.Sprintf("token: %s %q %s", e.Part, e.Value, e.Rule)
}

// Unwrap returns [ErrInvalid].
func (e *InvalidError) Unwrap() error { return ErrInvalid }

// MissingError reports that a context carries no token of Resource. It wraps
// [ErrMissing]. Have lists the resources of the tokens that the context does carry, so
// that a misspelt name is easy to find.
type MissingError struct {
	Resource string
	Have     []string // the resources of the context's tokens; nil if it carries none
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

// HeldError reports the holder of a resource. It wraps [ErrHeld].
type HeldError struct {
	Resource string
	Holder   string // empty if the issuer does not report it
	// Remaining is how long the lease lasts if it is not renewed, measured by the issuer
	// when it refused. The holder may renew or release before that time.
	Remaining time.Duration
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("token: %s is held by %q for up to %s", e.Resource, e.Holder, e.Remaining)
}

// Unwrap returns [ErrHeld].
func (e *HeldError) Unwrap() error { return ErrHeld }

// LostError reports why a lease ended early. It wraps [ErrLost] and Err.
type LostError struct {
	Token Token
	Err   error // why it ended, such as the issuer's last error; nil if not known
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
