package leader_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/examples/leader"
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
)

const role = "leader/billing"

func TestThereIsAlwaysALeaderAndNeverTwo(t *testing.T) {
	t.Parallel()
	issuer := redisIssuer(t)
	terms := stand(t, issuer, 3, kept)
	before := next(t, terms)
	for _, end := range []error{nil, errors.New("broken"), nil} {
		requireHeld(t, issuer)
		before.resign <- end
		now := next(t, terms)
		require.Greater(t, now.tok.Number, before.tok.Number, "the term")
		require.EqualValues(t, 1, now.leaders)
		before = now
	}
}

func TestALeaderWhoseLeaseIsLostStepsDownAndStandsAgain(t *testing.T) {
	t.Parallel()
	issuer := redisIssuer(t)
	terms := stand(t, issuer, 1, time.Second) // the leader detects the loss when it renews
	before := next(t, terms)
	for errors.Is(issuer.Release(t.Context(), before.tok), token.ErrLost) { // the test releases the leader's lease
		before = next(t, terms) // a slow machine has lost the lease before
	}
	require.ErrorIs(t, <-before.deposed, token.ErrLost)
	require.Greater(t, next(t, terms).tok.Number, before.tok.Number)
}

func TestAfter(t *testing.T) {
	t.Parallel()
	for next, errs := range map[leader.Next][]error{
		leader.StandAgain: {
			&token.LostError{}, errors.Join(errors.New("broken"), &token.LostError{}),
			&token.HeldError{}, &guard.StaleError{Mark: guard.Mark{Number: 2}},
		},
		leader.PauseFirst: {nil, errors.New("broken"), lock.ErrNotReleased, guard.ErrUnknown, context.DeadlineExceeded},
	} {
		for _, err := range errs {
			require.Equal(t, next, leader.After(err), "%v", err)
		}
	}
}
