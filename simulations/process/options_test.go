package process_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/simulations/process"
)

// Not parallel: it sets the environment.
func TestRoundsByTheEnvironment(t *testing.T) {
	t.Setenv(process.EnvRounds, "many")
	_, err := process.Examine(t, process.Options{Subject: "nobody"})
	require.ErrorContains(t, err, "process: FENCEPOST_ROUNDS: ")
	t.Setenv(process.EnvRounds, "3")
	r, err := process.Examine(t, process.Options{Subject: "nobody"})
	require.Error(t, err)
	require.Equal(t, 3, r.Rounds)
	r, err = process.Examine(t, process.Options{Subject: "nobody", Rounds: 2})
	require.Error(t, err)
	require.Equal(t, 2, r.Rounds)
}
