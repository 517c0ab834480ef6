package replicas_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/simulations/history"
)

// story is where A is stopped, and where B goes.
type story struct {
	stand stand
	same  bool // B asks the replica that A asks
}

// round carries a story out on an account of its own, and returns what everybody
// was told, and what became of A's write that B's came before.
func (s *stage) round(t *testing.T, way string, about story, n int) (ops []history.Op, late history.Outcome, p page) {
	t.Helper()
	account, here, there := strconv.Itoa(n), n%2, 1-n%2
	if about.same {
		there = here
	}
	ofA := order{
		Account: account, Way: way, Writes: 1, Stand: about.stand,
		Before: s.Replicas[here], After: s.Replicas[(here+n/2)%2],
	}
	if about.stand == written {
		ofA.Writes = 2
	}
	ofB := order{Account: account, Way: way, Writes: 1, Before: s.Replicas[there]}

	require.NoError(t, s.a.Send(ofA))
	sleeper := s.a
	if about.stand == admitted {
		sleeper = s.replicas[here]
	}
	s.stands(t, sleeper)
	if about.stand == halfway {
		require.True(t, s.next(t, s.replicas[here]).Halfway)
	}
	began := s.now()
	require.NoError(t, s.b.Send(ofB))
	b := s.next(t, s.b).Ops
	require.NoError(t, sleeper.Continue())
	a := s.next(t, s.a).Ops

	requireAccepted(t, b)
	for _, op := range a {
		if op.Kind == history.Write && op.Ended > began {
			late = op.Outcome
		}
	}
	return append(a, b...), late, s.look(t.Context(), t, s.pool, account)
}

// stands waits until p has been seen to stand.
func (s *stage) stands(t *testing.T, p peer) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, errPatience)
	defer cancel()
	require.NoError(t, p.Stands(ctx))
}

// requireAccepted: B, whom nobody disturbs, was through while A stood.
func requireAccepted(t *testing.T, b []history.Op) {
	t.Helper()
	require.Len(t, b, 2)
	for _, op := range b {
		require.Equal(t, history.Accepted, op.Outcome, "%+v", op)
	}
}
