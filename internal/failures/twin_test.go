package failures_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/simulations/history"
	"github.com/fencepost/fencepost/token"
)

// hazard R1
// hazard P6
func TestWithoutAGuardTwoHoldersWriteUnderFallingNumbers(t *testing.T) {
	for name, start := range map[string]func(*testing.T) system{
		"a replica is promoted": promotedReplica,
		"a standby is promoted": func(t *testing.T) system { t.Helper(); return promotedStandby(t, onPostgres["rows"]) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRound(t, false)
			r.play(start(t), true)
			require.True(t, r.grants.fell(), "this round must force numbers that fall")
			require.True(t, falls(r.accepted()), "the naive store must be fooled")
			require.True(t, slices.ContainsFunc(r.broken(), func(v history.Violation) bool {
				return v.Rule.ID == "order" || v.Rule.ID == "holder"
			}), "and the judge must see it")
		})
	}
}

// forgetful is an issuer that cannot be raised.
type forgetful struct{ token.Issuer }

// hazard R2
func TestWithoutHealingNobodyWritesUntilTheClockHasCaughtUp(t *testing.T) {
	t.Parallel()
	s := restarted(t, nil)
	able := s.issuer
	s.issuer = func(t *testing.T) token.Issuer { t.Helper(); return &forgetful{able(t)} }
	r := newRound(t, true)
	paused, back := r.playToTheFailure(s, true)
	time.Sleep(time.Until(back.Add(2 * promised)))
	require.False(t, slices.ContainsFunc(r.all(), func(w write) bool { return w.at.After(back) && w.tok != paused }),
		"the numbers of half an hour ahead must be missed")
	require.Greater(t, len(r.grants.tokens), 10, "the lock is granted again and again")
}
