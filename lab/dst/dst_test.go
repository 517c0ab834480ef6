package dst_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/lab/dst"
)

func ignore(uint64) {}

// Guarded runs lose nothing, and the same runs lose writes if refusals are ignored.
func TestSchedules(t *testing.T) {
	t.Parallel()
	r, err := dst.Explore(t.Context(), dst.Plan{Seed: 1, Schedules: 1500, Faults: dst.All}, ignore)
	require.NoError(t, err)
	require.Zero(t, r.Violations, "seed %d: go run -C lab ./explore --seed %d --schedules 1", r.Broken, r.Broken)
	require.Zero(t, r.Lost)
	require.Positive(t, r.ControlLost)
	require.Greater(t, r.ControlViolations, r.Schedules/10)
	require.Greater(t, r.Acknowledged, 5*r.Schedules)
}

func TestEachFaultAloneBreaksNothing(t *testing.T) {
	t.Parallel()
	for _, name := range dst.FaultNames() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			faults, err := dst.ParseFaults([]string{name})
			require.NoError(t, err)
			require.Equal(t, name, faults.String())
			r, err := dst.Explore(t.Context(), dst.Plan{Seed: 1, Schedules: 100, Faults: faults}, ignore)
			require.NoError(t, err)
			require.Zero(t, r.Violations, "seed %d", r.Broken)
			require.Zero(t, r.Lost)
		})
	}
}

// hazard L8
func TestASuspendedHolderCorruptsAnUnguardedResource(t *testing.T) {
	t.Parallel()
	r, err := dst.Explore(t.Context(), dst.Plan{Seed: 1, Schedules: 400, Faults: dst.Suspend}, ignore)
	require.NoError(t, err)
	require.Zero(t, r.Violations)
	require.Positive(t, r.ControlLost)
}

func TestASeedIsOneRun(t *testing.T) {
	t.Parallel()
	var used dst.Player
	for seed := uint64(1); seed <= 1000; seed++ {
		first := replay(t, new(dst.Player), seed)
		require.Equal(t, first, replay(t, &used, seed), "seed %d", seed)
	}
}

// replay returns the history of a run as text.
func replay(t *testing.T, p *dst.Player, seed uint64) string {
	t.Helper()
	run, err := p.Play(seed, dst.Setting{Faults: dst.All})
	require.NoError(t, err)
	text, err := json.Marshal(run.History)
	require.NoError(t, err)
	return string(text)
}

func TestAReportIsTheSumOfItsSeeds(t *testing.T) {
	t.Parallel()
	plan := dst.Plan{Seed: 77, Schedules: 200, Faults: dst.All}
	whole, err := dst.Explore(t.Context(), plan, ignore)
	require.NoError(t, err)
	sum := dst.Report{Seed: 77}
	for i := range plan.Schedules {
		one, err := dst.Explore(t.Context(), dst.Plan{Seed: 77 + i, Schedules: 1, Faults: dst.All}, ignore)
		require.NoError(t, err)
		sum.Schedules++
		sum.Violations += one.Violations
		sum.ControlViolations += one.ControlViolations
		sum.Acknowledged += one.Acknowledged
		sum.ControlLost += one.ControlLost
		if sum.ControlBroken == 0 {
			sum.ControlBroken = one.ControlBroken
		}
	}
	require.Equal(t, whole, sum)
}

// The effect of each fault must be recorded in the history, for its readers.
func TestEveryFaultIsInSomeHistory(t *testing.T) {
	t.Parallel()
	missing := map[string]bool{
		"paused": true, "suspended": true, "crashed": true, "restarts": true,
		"restarts without its memory": true, "its replica takes over": true,
		"holds for too long": true, "messages": true, "cannot reach the lock": true, "gets nothing from the lock": true, "the service cannot reach its marks": true,
	}
	var p dst.Player
	for seed := uint64(1); seed <= 200; seed++ {
		run, err := p.Play(seed, dst.Setting{Faults: dst.All})
		require.NoError(t, err)
		for _, op := range run.History.Ops {
			if op.Kind == history.Fault {
				what, _, _ := strings.Cut(op.Note, ":")
				delete(missing, what)
			}
		}
	}
	require.Empty(t, missing)
}

func TestNoFaultsBreakNothing(t *testing.T) {
	t.Parallel()
	r, err := dst.Explore(t.Context(), dst.Plan{Seed: 1, Schedules: 300}, ignore)
	require.NoError(t, err)
	require.Zero(t, r.Violations)
	require.Zero(t, r.ControlLost, "a lock alone is enough if there are no faults")
}

func TestUnknownFaultsAreNamed(t *testing.T) {
	t.Parallel()
	_, err := dst.ParseFaults([]string{"pause", "flood"})
	require.ErrorContains(t, err, `no fault is named "flood"; there are pause, suspend`)
	none, err := dst.ParseFaults(nil)
	require.NoError(t, err)
	require.Zero(t, none)
	require.Equal(t, "dst.Faults", fmt.Sprintf("%T", none))
}
