package process_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/simulations/process"
)

// In every round A is stopped between its read and its write, past the end of
// its lease and past B's write. Guarded, none of its writes is accepted, and in
// the twin all are.
//
// hazard G1
func TestRounds(t *testing.T) {
	t.Parallel()
	var table table
	t.Cleanup(func() { t.Log(table.String()) })
	for _, pause := range []process.Pause{process.SIGSTOP, process.StopTheWorld} {
		t.Run(string(pause), func(t *testing.T) {
			t.Parallel()
			t.Run("PostgreSQL", func(t *testing.T) {
				t.Parallel()
				c, _ := newLedger(t)
				r := process.Run(t, process.Options{Subject: "postgres", Conf: c.String(), Pause: pause, At: computed})
				table.add(r)
				requireFenced(t, r)
			})
			t.Run("HTTP", func(t *testing.T) {
				t.Parallel()
				r := process.Run(t, process.Options{Subject: "http", Conf: newService(t).String(), Pause: pause, At: computed})
				table.add(r)
				requireFenced(t, r)
			})
		})
	}
}

func requireFenced(t *testing.T, r process.Report) {
	t.Helper()
	for _, c := range []process.Count{r.Guarded, r.Twin} {
		require.Equal(t, r.Rounds, c.Rounds)
		require.Equal(t, r.Rounds, c.Attempted, "in every round")
		require.Zero(t, c.Early)
		require.Zero(t, c.Blocked)
	}
	require.Equal(t, r.Rounds, r.Guarded.Refused)
	require.Zero(t, r.Guarded.Accepted)
	require.Zero(t, r.Guarded.Lost)
	require.Equal(t, r.Rounds, r.Twin.Accepted)
	require.Equal(t, r.Rounds, r.Twin.Lost)
}
