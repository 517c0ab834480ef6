package simulations_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

func TestAnIncompleteSubjectIsRefused(t *testing.T) {
	t.Parallel()
	for says, spoil := range map[string]func(*simulations.Subject){
		"no Issuer":           func(s *simulations.Subject) { s.Issuer = nil },
		"no Do":               func(s *simulations.Subject) { s.Do = nil },
		"no Count":            func(s *simulations.Subject) { s.Count = nil },
		"negative duration":   func(s *simulations.Subject) { s.Budget = -time.Second },
		"resource":            func(s *simulations.Subject) { s.Resource = "" },
		"Count: out of order": func(s *simulations.Subject) { s.Count = broken },
		"nobody disturbs it, 10 times: out of order": func(s *simulations.Subject) {
			s.Do = func(context.Context) error { return errOutOfOrder }
		},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			s := (&ledger{marks: new(guard.Memory)}).subject()
			spoil(&s)
			err := simulations.Examine(t, s)
			require.ErrorContains(t, err, says)
			require.NotErrorAs(t, err, new(*simulations.Verdict))
		})
	}
}

var errOutOfOrder = errors.New("out of order")

func broken(context.Context) (int, error) { return 0, errOutOfOrder }

// A Do that takes the lock itself re-enters the kit's lease, so that one that
// goes past it, by an issuer of its own, is told.
func TestAHoldByAnotherIssuerIsForeign(t *testing.T) {
	t.Parallel()
	l := &ledger{marks: new(guard.Memory)}
	s := l.subject()
	other := &token.Locker{Issuer: new(memtoken.Issuer)}
	s.Do = func(ctx context.Context) error { return other.Hold(ctx, resource, l.Do) }
	require.ErrorIs(t, simulations.Examine(t, s), token.ErrForeign)
}

func TestAWriterThatNeverEndsIsNamed(t *testing.T) {
	t.Parallel()
	require.Contains(t, simulations.Stuck("B", "acquire", "granted"), "B has not ended for more than 1m0s; its steps: acquire, granted")
}
