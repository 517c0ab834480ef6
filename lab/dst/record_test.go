package dst_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/lab/dst"
)

// A holder that repeats its request is granted several numbers and receives one. The rule
// number-reuse judges the others too, so each must be in the record.
func TestNumbersWithoutAReplyStayInTheRecord(t *testing.T) {
	t.Parallel()
	type number struct {
		resource string
		number   int64
	}
	honest := dst.All &^ (dst.Clock | dst.Forget | dst.Promote)
	extraGrants := 0
	var p dst.Player
	for seed := uint64(1); seed <= 200; seed++ {
		run, err := p.Play(seed, dst.Setting{Faults: honest})
		require.NoError(t, err)
		seen := map[number]bool{}
		for _, op := range run.History.Ops {
			if op.Kind != history.Acquire || op.Number == 0 {
				continue
			}
			require.False(t, seen[number{op.Resource, op.Number}], "seed %d: #%d is recorded twice, in place of another number", seed, op.Number)
			seen[number{op.Resource, op.Number}] = true
			if op.Outcome == history.Unknown {
				extraGrants++
			}
		}
	}
	require.Positive(t, extraGrants)
}

// A stopped clock does not excuse a lock with two holders.
func TestALockIsJudgedWhileClocksAreStopped(t *testing.T) {
	t.Parallel()
	for _, m := range dst.Mutants() {
		if m.Name == "held lock is granted" {
			require.True(t, isSeenBesideAStandingClock(t, m))
			return
		}
	}
	require.Fail(t, "there is no such mutant")
}

func isSeenBesideAStandingClock(t *testing.T, m dst.Mutant) bool {
	t.Helper()
	var p dst.Player
	for seed := uint64(1); seed <= 100; seed++ {
		run, err := p.Play(seed, dst.Setting{Faults: dst.Suspend, Mutant: &m})
		require.NoError(t, err)
		if len(run.Violations) == 0 || run.Violations[0].Rule.ID != "mutual-exclusion" {
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

func TestAFinishedRunIsNotInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	plan := dst.Plan{Seed: 1, Schedules: 10, Faults: dst.All}
	r, err := dst.Explore(ctx, plan, func(uint64) { cancel() })
	require.NoError(t, err)
	require.EqualValues(t, 10, r.Schedules)

	_, err = dst.Explore(ctx, plan, ignore)
	require.ErrorIs(t, err, context.Canceled)
}
