package replicas_test

import (
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/simulations/history"
	"github.com/fencepost/fencepost/simulations/process"
)

func rounds(t *testing.T) int {
	t.Helper()
	text := os.Getenv(process.EnvRounds)
	if text == "" {
		return 100
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

func (about story) String() string {
	if about.same {
		return string(about.stand) + ", same replica"
	}
	return string(about.stand)
}

// Wherever A is stopped, and whichever replica its successor asks, no write of A
// comes after its successor's. The unguarded twin is corrupted each time.
//
// A middleware that asks the database, and then lets the handler write plainly,
// is a check and an act. It is enough where A is stopped between two requests,
// since the next one is checked; and inside one process, where the window holds
// until the handler has returned. With a second replica it is corrupted each
// time that A was let in before it was stopped.
//
// hazard W1
func TestReplicas(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		story
		checkHolds bool
	}{
		{story{stand: read}, true},
		{story{stand: written}, true},
		{story{stand: halfway}, false},
		{story{stand: admitted}, false},
		{story{stand: halfway, same: true}, true},
	} {
		t.Run(test.String(), func(t *testing.T) {
			t.Parallel()
			s, n := newStage(t), rounds(t)
			requireFenced(t, s.run(t, guarded, test.story, n), test.story)
			requireCorrupted(t, s.run(t, observed, test.story, n))
			if f := s.run(t, checked, test.story, n); test.checkHolds {
				requireFenced(t, f, test.story)
			} else {
				requireCorrupted(t, f)
			}
		})
	}
}

// requireFenced: no late write was applied, and each caller was told so. One
// whose body was cut off may have found its connection closed instead.
func requireFenced(t *testing.T, f figures, about story) {
	t.Helper()
	require.Empty(t, f.broken)
	require.Zero(t, f.falls)
	require.Zero(t, f.late[history.Accepted])
	if about.same {
		require.Equal(t, f.rounds, f.late[history.Refused]+f.late[history.Unknown])
		return
	}
	require.Equal(t, f.rounds, f.late[history.Refused])
}

// requireCorrupted: in each round the late write was applied after a newer one,
// and acknowledged; and an acknowledged write was lost.
func requireCorrupted(t *testing.T, f figures) {
	t.Helper()
	require.Equal(t, f.rounds, f.late[history.Accepted])
	require.Equal(t, f.rounds, f.falls)
	require.Equal(t, f.rounds, f.corrupted)
	lost := 0
	for _, v := range f.broken {
		if v.Rule.ID == "once" {
			lost++
		}
	}
	require.Equal(t, f.rounds, lost)
}
