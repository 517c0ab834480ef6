package guard

import (
	"errors"
	"fmt"

	"github.com/fencepost/fencepost/token"
)

var (
	// ErrStale is found in every refusal of a token that the mark does not
	// admit. Nothing was applied, and the same token will never be admitted. It
	// is found in a [DismissedError] too, which promises neither.
	ErrStale = errors.New("guard: stale token")
	// ErrCollision is found, beside ErrStale, in the refusal of a token whose
	// number is the mark's and whose holder is not: an issuer has given one
	// number twice.
	ErrCollision = errors.New("guard: token collision")
)

// StaleError is the refusal of a token. It is [ErrStale], and [ErrCollision]
// too when the numbers are equal. It promises that nothing was applied.
type StaleError struct {
	Token token.Token
	// Mark is what the guard had admitted. Do not show it to the refused: it
	// could copy the number. It is zero where the guard does not tell. Where
	// the mark was pruned it is the floor, a number without a holder.
	Mark Mark
}

func (e *StaleError) Error() string {
	if e.collides() {
		return fmt.Sprintf("guard: token %s collides: the mark has this number from another holder", e.Token)
	}
	return fmt.Sprintf("guard: stale token %s: mark is newer", e.Token)
}

// Stale returns the token that was refused and the number of the mark, or 0
// where the guard does not tell: what package token, which knows no guards,
// wants to know of a refusal.
func (e *StaleError) Stale() (token.Token, int64) { return e.Token, e.Mark.Number }

// Is reports whether target is [ErrStale], or [ErrCollision] and the numbers
// are equal.
func (e *StaleError) Is(target error) bool {
	return target == ErrStale || target == ErrCollision && e.collides()
}

func (e *StaleError) collides() bool { return e.Token.Number == e.Mark.Number }

// Refusal reports whether err refuses a writer: its token is stale, collides,
// is missing, released, incomplete or without a valid seal. Other errors say
// nothing of the token. Nor does a [DismissedError] that no guard has joined a
// [*StaleError] to: whatever was under way then may have been applied.
func Refusal(err error) bool {
	var dismissed *DismissedError
	var stale *StaleError
	if errors.As(err, &dismissed) && !errors.As(err, &stale) {
		return false
	}
	for _, refusal := range []error{ErrStale, token.ErrMissing, token.ErrReleased, token.ErrInvalid, token.ErrSeal} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}
