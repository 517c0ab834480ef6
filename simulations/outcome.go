package simulations

import (
	"errors"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/simulations/history"
	"github.com/fencepost/fencepost/token"
)

// Outcome says what err, of a guarded write or of a unit of work, means for a
// history. Only Fencepost's own promise that nothing was applied is believed:
// every other error is [history.Unknown].
func Outcome(err error) history.Outcome {
	switch {
	case err == nil:
		return history.Accepted
	case errors.Is(err, guard.ErrUnknown):
		return history.Unknown
	case guard.Refusal(err):
		return history.Refused
	case errors.Is(err, guard.ErrRetryable), errors.Is(err, guard.ErrEvicted), errors.Is(err, guard.ErrClaimFirst), errors.Is(err, guard.ErrNoRow):
		return history.Failed
	}
	return history.Unknown
}

// LockOutcome says what an issuer's err means for a history.
func LockOutcome(err error) history.Outcome {
	switch {
	case err == nil:
		return history.Accepted
	case errors.Is(err, token.ErrLost), errors.Is(err, token.ErrHeld):
		return history.Refused
	}
	return history.Unknown
}
