package token

import (
	"context"
	"errors"
	"time"
)

// ErrPoisoned is found when an issuer is to be raised to a number that no
// honest issuer can have given: more than a day ahead of its clock. Nothing was
// raised.
var ErrPoisoned = errors.New("token: number is a day ahead of the clock")

// Poisoned is how far ahead of its own clock, in numbers, an issuer lets itself
// be raised: 24 h in units of 10 µs.
const Poisoned = int64(24 * time.Hour / (10 * time.Microsecond))

// Raiser is what an [Issuer] may be besides: one that can be taught what it has
// forgotten. A [Locker] raises it where a guard refuses a token whose lease is
// alive, at the claim or in the function that was given to one of its Holds.
type Raiser interface {
	// Raise makes every number that is granted for resource from now on
	// greater than number; others may rise as well. It must decide in one
	// atomic step. Where the issuer's memory is at or above number already,
	// nothing was forgotten, and the error must be [ErrLost]: a newer holder has
	// been there. Where number is more than [Poisoned] above the issuer's clock
	// the error must be [ErrPoisoned]. Any other error promises nothing.
	Raise(ctx context.Context, resource string, number int64) error
}
