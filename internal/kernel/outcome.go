package kernel

import (
	"errors"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/simulations/history"
)

// outcome is what an answer comes to. No answer at all is unknown.
func outcome(err error) history.Outcome {
	switch {
	case err == nil:
		return history.Accepted
	case isLoss(err), errors.Is(err, guard.ErrStale):
		return history.Refused
	}
	return history.Failed
}
