package kernel_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/kernel"
	"github.com/fencepost/fencepost/simulations/history"
)

func ignore(uint64) {}

// The kernel's own promise: guarded nothing is lost; with refusals ignored the
// same runs go wrong.
func TestSchedules(t *testing.T) {
	t.Parallel()
	r, err := kernel.Explore(t.Context(), kernel.Plan{Seed: 1, Schedules: 1500, Faults: kernel.All}, ignore)
	require.NoError(t, err)
	require.Zero(t, r.Violations, "seed %d: fencepost explore --seed %d --schedules 1", r.Broken, r.Broken)
	require.Zero(t, r.Lost)
	require.Positive(t, r.ControlLost)
	require.Greater(t, r.ControlViolations, r.Schedules/10)
	require.Greater(t, r.Acknowledged, 5*r.Schedules)
}

func TestEachFaultAloneBreaksNothing(t *testing.T) {
	t.Parallel()
	for _, name := range kernel.FaultNames() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			faults, err := kernel.ParseFaults([]string{name})
			require.NoError(t, err)
			require.Equal(t, name, faults.String())
			r, err := kernel.Explore(t.Context(), kernel.Plan{Seed: 1, Schedules: 100, Faults: faults}, ignore)
			require.NoError(t, err)
			require.Zero(t, r.Violations, "seed %d", r.Broken)
			require.Zero(t, r.Lost)
		})
	}
}

// hazard L8
func TestASuspendedHolderCorruptsWhatIsNotGuarded(t *testing.T) {
	t.Parallel()
	r, err := kernel.Explore(t.Context(), kernel.Plan{Seed: 1, Schedules: 400, Faults: kernel.Suspend}, ignore)
	require.NoError(t, err)
	require.Zero(t, r.Violations)
	require.Positive(t, r.ControlLost)
}

func TestASeedIsOneRun(t *testing.T) {
	t.Parallel()
	var used kernel.Player
	for seed := uint64(1); seed <= 1000; seed++ {
		first := replay(t, new(kernel.Player), seed)
		require.Equal(t, first, replay(t, &used, seed), "seed %d", seed)
	}
}

// replay is a run, to the byte.
func replay(t *testing.T, p *kernel.Player, seed uint64) string {
	t.Helper()
	run, err := p.Play(seed, kernel.Setting{Faults: kernel.All})
	require.NoError(t, err)
	text, err := json.Marshal(run.History)
	require.NoError(t, err)
	return string(text)
}

func TestTheReportDoesNotDependOnWhoPlays(t *testing.T) {
	t.Parallel()
	plan := kernel.Plan{Seed: 77, Schedules: 200, Faults: kernel.All}
	whole, err := kernel.Explore(t.Context(), plan, ignore)
	require.NoError(t, err)
	sum := kernel.Report{Seed: 77}
	for i := range plan.Schedules {
		one, err := kernel.Explore(t.Context(), kernel.Plan{Seed: 77 + i, Schedules: 1, Faults: kernel.All}, ignore)
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

// What a fault does must be in the history, or nobody could read it.
func TestEveryFaultIsInSomeHistory(t *testing.T) {
	t.Parallel()
	missing := map[string]bool{
		"paused": true, "suspended": true, "crashed": true, "restarts": true,
		"restarts without its memory": true, "its replica takes over": true,
		"holds for too long": true, "messages": true, "cannot reach the lock": true, "does not hear the lock": true, "the service cannot reach its marks": true,
	}
	var p kernel.Player
	for seed := uint64(1); seed <= 200; seed++ {
		run, err := p.Play(seed, kernel.Setting{Faults: kernel.All})
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
	r, err := kernel.Explore(t.Context(), kernel.Plan{Seed: 1, Schedules: 300}, ignore)
	require.NoError(t, err)
	require.Zero(t, r.Violations)
	require.Zero(t, r.ControlLost, "a lock alone is enough where nothing goes wrong")
}

func TestUnknownFaultsAreNamed(t *testing.T) {
	t.Parallel()
	_, err := kernel.ParseFaults([]string{"pause", "flood"})
	require.ErrorContains(t, err, `no fault is named "flood"; there are pause, suspend`)
	none, err := kernel.ParseFaults(nil)
	require.NoError(t, err)
	require.Zero(t, none)
	require.Equal(t, "kernel.Faults", fmt.Sprintf("%T", none))
}
