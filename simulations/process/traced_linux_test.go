package process_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/simulations/process"
)

// What an issuer does, by itself and beside the work, is not the writer's.
func TestTheIssuersStatementsAreNotTheWriters(t *testing.T) {
	t.Parallel()
	c, _ := newLedger(t)
	r := process.Run(t, process.Options{Subject: "traced issuer", Conf: c.String(), At: computed, Rounds: 5})
	requireFenced(t, r)
	require.Equal(t, []string{"acquire", "granted"}, r.Guarded.Steps[:2])
	require.Equal(t, []string{"done", "release"}, r.Guarded.Steps[len(r.Guarded.Steps)-2:])
}
