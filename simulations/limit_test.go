package simulations_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/simulations"
)

// slow is a correct subject whose unit takes a second.
func slow() simulations.Subject {
	l := &ledger{marks: new(guard.Memory)}
	s := l.subject()
	s.Seed, s.TTL = 1, time.Minute
	s.Do = func(ctx context.Context) error {
		time.Sleep(time.Second)
		return l.Do(ctx)
	}
	return s
}

// In the fake time of a bubble a unit takes exactly a second.
func TestLimitEndsARunWhoseUnitsAreSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := slow()
		began := time.Now()
		covered, err := simulations.Cover(t.Context(), s)
		require.NoError(t, err)
		require.NotContains(t, covered, "Limit")
		unlimited := time.Since(began)

		s.Limit = unlimited / 2
		began = time.Now()
		covered, err = simulations.Cover(t.Context(), s)
		require.NoError(t, err)
		require.Less(t, time.Since(began), s.Limit+time.Minute, "and the interleaving that was being performed")
		require.Regexp(t, `not covered: Limit ended the plan: [1-9]\d* of [1-9]\d* interleavings of two holders were performed`, covered)
		require.Regexp(t, `covered: [1-9]\d* of [1-9]\d* interleavings of the plan, [1-9]\d* random ones`, covered)
	})
}

// A run that ends before the twin is corrupted has proven nothing.
func TestALimitThatIsTooShortIsVacuous(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := slow()
		s.Limit = time.Nanosecond
		covered, err := simulations.Cover(t.Context(), s)
		require.Regexp(t, `covered: 2 of [1-9]\d* interleavings of the plan, 1 random ones`, covered, "one of each kind")
		var verdict *simulations.Verdict
		require.ErrorAs(t, err, &verdict)
		require.True(t, verdict.Vacuous())
		require.ErrorContains(t, err, "Likely: Limit (1ns) ended the twin after 1 interleavings of the plan and 0 random ones.")
	})
}

// A twin that no interleaving corrupts is performed until Limit, or at least 2000 times.
func TestLimitEndsATwinThatIsNeverCorrupted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		goesOn := simulations.TwinGoesOn(slow())
		s := slow()
		s.Limit = time.Minute
		limited := simulations.TwinGoesOn(s)
		require.True(t, limited(1999))
		time.Sleep(time.Hour)
		require.True(t, goesOn(1999))
		require.False(t, goesOn(2000), "Budget is used up")
		require.True(t, limited(0), "at least one")
		require.False(t, limited(1))
	})
}
