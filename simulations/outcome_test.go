package simulations_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/simulations/history"
	"github.com/fencepost/fencepost/token"
)

func TestOutcome(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err         error
		write, lock history.Outcome
	}{
		{nil, history.Accepted, history.Accepted},
		{guard.ErrStale, history.Refused, history.Unknown},
		{token.ErrReleased, history.Refused, history.Unknown},
		{guard.ErrEvicted, history.Failed, history.Unknown},
		{guard.ErrRetryable, history.Failed, history.Unknown},
		{guard.ErrClaimFirst, history.Failed, history.Unknown},
		{guard.ErrUnknown, history.Unknown, history.Unknown},
		{token.ErrLost, history.Unknown, history.Refused},
		{token.ErrHeld, history.Unknown, history.Refused},
		{errors.New("no disk"), history.Unknown, history.Unknown},
	} {
		for _, err := range []error{c.err, fmt.Errorf("wrapped: %w", c.err)} {
			if c.err == nil {
				err = nil
			}
			require.Equal(t, c.write, simulations.Outcome(err), "%v", err)
			require.Equal(t, c.lock, simulations.LockOutcome(err), "%v", err)
		}
	}
}
