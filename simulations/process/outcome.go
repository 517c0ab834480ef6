package process

import (
	"errors"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/simulations/history"
	"github.com/fencepost/fencepost/token"
)

// outcome takes an error that promises nothing for one that may have been
// applied: only Fencepost's own promise that it was not.
func outcome(err error) history.Outcome {
	switch {
	case err == nil:
		return history.Accepted
	case errors.Is(err, guard.ErrUnknown):
		return history.Unknown
	case guard.Refusal(err):
		return history.Refused
	case errors.Is(err, guard.ErrRetryable), errors.Is(err, guard.ErrEvicted), errors.Is(err, guard.ErrClaimFirst):
		return history.Failed
	}
	return history.Unknown
}

// answer is the outcome of asking about a lock.
func answer(err error) history.Outcome {
	switch {
	case err == nil:
		return history.Accepted
	case errors.Is(err, token.ErrLost):
		return history.Refused
	}
	return history.Unknown
}

// again reports whether a holder that did not come to its work takes the lock
// once more: it was too late, and that is all.
func again(err error) bool {
	return errors.Is(err, token.ErrLost) || guard.Refusal(err) || errors.Is(err, guard.ErrRetryable) || errors.Is(err, guard.ErrEvicted)
}
