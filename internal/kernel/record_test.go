package kernel_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/kernel"
	"github.com/fencepost/fencepost/simulations/history"
)

// A holder that asks again is granted several numbers, and hears of one: burnt
// judges the others, so each must be there.
func TestNumbersThatNobodyHeardOfStayInTheRecord(t *testing.T) {
	t.Parallel()
	type number struct {
		resource string
		number   int64
	}
	honest := kernel.All &^ (kernel.Clock | kernel.Forget | kernel.Promote)
	burnt := 0
	var p kernel.Player
	for seed := uint64(1); seed <= 200; seed++ {
		run, err := p.Play(seed, kernel.Setting{Faults: honest})
		require.NoError(t, err)
		seen := map[number]bool{}
		for _, op := range run.History.Ops {
			if op.Kind != history.Acquire || op.Number == 0 {
				continue
			}
			require.False(t, seen[number{op.Resource, op.Number}], "seed %d: #%d is there twice, in the place of another", seed, op.Number)
			seen[number{op.Resource, op.Number}] = true
			if op.Outcome == history.Unknown {
				burnt++
			}
		}
	}
	require.Positive(t, burnt)
}

// A clock that stands is no excuse for a lock that two hold.
func TestALockIsJudgedWhereClocksStand(t *testing.T) {
	t.Parallel()
	for _, m := range kernel.Mutants() {
		if m.Name == "held lock is granted" {
			require.True(t, isSeenBesideAStandingClock(t, m))
			return
		}
	}
	require.Fail(t, "there is no such mutant")
}

func isSeenBesideAStandingClock(t *testing.T, m kernel.Mutant) bool {
	t.Helper()
	var p kernel.Player
	for seed := uint64(1); seed <= 100; seed++ {
		run, err := p.Play(seed, kernel.Setting{Faults: kernel.Suspend, Mutant: &m})
		require.NoError(t, err)
		if len(run.Violations) == 0 || run.Violations[0].Rule.ID != "alone" {
			continue
		}
		for _, op := range run.History.Ops {
			if op.Note == "suspended: its clock stands" {
				return true
			}
		}
	}
	return false
}

func TestWhoHasPlayedAllIsNotInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	plan := kernel.Plan{Seed: 1, Schedules: 10, Faults: kernel.All}
	r, err := kernel.Explore(ctx, plan, func(uint64) { cancel() })
	require.NoError(t, err)
	require.EqualValues(t, 10, r.Schedules)

	_, err = kernel.Explore(ctx, plan, ignore)
	require.ErrorIs(t, err, context.Canceled)
}
