package process_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/simulations/process"
)

// Not parallel: it sets the environment.
func TestRoundsByTheEnvironment(t *testing.T) {
	t.Setenv(process.EnvRounds, "many")
	_, err := process.Check(t, process.Options{Subject: "absent"})
	require.ErrorContains(t, err, "process: FENCEPOST_ROUNDS: ")
	t.Setenv(process.EnvRounds, "3")
	r, err := process.Check(t, process.Options{Subject: "absent"})
	require.Error(t, err)
	require.Equal(t, 3, r.Rounds)
	r, err = process.Check(t, process.Options{Subject: "absent", Rounds: 2})
	require.Error(t, err)
	require.Equal(t, 2, r.Rounds)
}
