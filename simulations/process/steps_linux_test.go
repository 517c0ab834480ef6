package process_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/simulations/history"
	"github.com/fencepost/fencepost/simulations/process"
)

// Stopped at any step, inside an admitted transaction too, A keeps nobody
// waiting: it is evicted. Nobody evicts it in the twin, where B waits for A's
// row lock.
//
// hazard G8
func TestEveryStep(t *testing.T) {
	t.Parallel()
	for _, pause := range []process.Pause{process.SIGSTOP, process.StopTheWorld} {
		t.Run(string(pause), func(t *testing.T) {
			t.Parallel()
			c, _ := newLedger(t)
			c.Idle = ttl
			r := process.Run(t, process.Options{Subject: "postgres", Conf: c.String(), Pause: pause, Rounds: 25})
			require.Subset(t, r.Guarded.Steps, []string{"claim begin", "do", computed, "begin", "admitted", "written", "commit", "applied"})
			require.GreaterOrEqual(t, r.Rounds, len(r.Guarded.Steps))
			require.Zero(t, r.Guarded.Blocked)
			require.Zero(t, r.Guarded.Lost)
			require.NotZero(t, r.Guarded.Refused)
			require.NotZero(t, r.Twin.Blocked)
			requireStood(t, r.Guarded.History)
			requireStood(t, r.Twin.History)
		})
	}
}

// requireStood: nothing that A does ends while it stands; its renewals neither.
func requireStood(t *testing.T, h history.History) {
	t.Helper()
	var faults, ofA []history.Op
	for _, op := range h.Ops {
		switch {
		case op.Kind == history.Fault:
			faults = append(faults, op)
		case op.Writer == "A":
			ofA = append(ofA, op)
		}
	}
	require.NotEmpty(t, faults)
	for _, fault := range faults {
		for _, op := range ofA {
			require.False(t, fault.Began < op.Ended && op.Ended < fault.Ended, "%v ended while A stood: %v", op, fault)
		}
	}
}

// Killed at any step A leaves its unit done or not done, and B goes on.
func TestKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		c, _ := newLedger(t)
		requireSurvived(t, process.Options{Subject: "postgres", Conf: c.String()})
	})
	t.Run("HTTP", func(t *testing.T) {
		t.Parallel()
		requireSurvived(t, process.Options{Subject: "http", Conf: newService(t).String()})
	})
}

func requireSurvived(t *testing.T, o process.Options) {
	t.Helper()
	o.Pause, o.Rounds = process.SIGKILL, 25
	r, err := process.Guarded(t, o)
	require.NoError(t, err)
	t.Log(r)
	require.GreaterOrEqual(t, r.Rounds, len(r.Guarded.Steps))
	require.Zero(t, r.Guarded.Blocked)
	require.Zero(t, r.Guarded.Lost)
	outcomes := map[history.Outcome]int{}
	for _, op := range r.Guarded.History.Ops {
		if op.Kind == history.Unit && op.Writer == "A" {
			outcomes[op.Outcome]++
		}
	}
	require.NotZero(t, outcomes[history.Unknown], "A was killed in the middle of its unit: %v", outcomes)
}

// Whenever A is stopped, whatever it is at, no stale write of it is accepted.
func TestAnytime(t *testing.T) {
	t.Parallel()
	for _, pause := range []process.Pause{process.SIGSTOP, process.StopTheWorld, process.SIGKILL} {
		t.Run(string(pause), func(t *testing.T) {
			t.Parallel()
			c, _ := newLedger(t)
			c.Idle, c.Work = ttl, ttl
			r, err := process.Guarded(t, process.Options{
				Subject: "postgres", Conf: c.String(), Pause: pause, At: process.Anytime, Rounds: 40,
			})
			require.NoError(t, err)
			t.Log(r)
			require.Equal(t, 40, r.Guarded.Rounds)
			require.Zero(t, r.Guarded.Accepted)
			require.Zero(t, r.Guarded.Lost)
			require.Zero(t, r.Guarded.Blocked)
		})
	}
}
