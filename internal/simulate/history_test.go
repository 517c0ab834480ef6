package simulate_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/simulate"
	"github.com/fencepost/fencepost/simulations/history"
)

// The judge of histories comes to the same verdict as the count of rows.
func TestTheHistoryOfARoundIsJudgedAsItsRowsAre(t *testing.T) {
	t.Parallel()
	o := options(t)
	o.Rounds = 1
	report, err := simulate.Run(t.Context(), o)
	require.NoError(t, err)
	for _, way := range simulate.Ways() {
		h := report.Of(way).Example.History(o.TTL)
		broken, err := history.Check(h)
		require.NoError(t, err)
		if way == simulate.Guarded {
			require.Empty(t, broken, way)
			continue
		}
		require.Len(t, broken, 1, way)
		require.Equal(t, "order", broken[0].Rule.ID)
		last := broken[0].Ops[len(broken[0].Ops)-1]
		require.Equal(t, "A", last.Writer)
		require.Equal(t, "writes 150", last.Note)
	}
}

func TestTheHistoryOfARoundHasAllThatWasSeen(t *testing.T) {
	t.Parallel()
	o := options(t)
	o.Rounds = 1
	report, err := simulate.Run(t.Context(), o)
	require.NoError(t, err)
	ops := report.Of(simulate.Guarded).Example.History(o.TTL).Ops
	find := func(writer string, kind history.Kind) history.Op {
		i := slices.IndexFunc(ops, func(op history.Op) bool { return op.Writer == writer && op.Kind == kind })
		require.GreaterOrEqual(t, i, 0, "%s %s", writer, kind)
		return ops[i]
	}
	stopped, a, b := find("A", history.Fault), find("A", history.Acquire), find("B", history.Acquire)
	require.Equal(t, "stopped", stopped.Note)
	require.Less(t, stopped.Began, b.Ended)
	require.Less(t, find("B", history.Write).Ended, stopped.Ended)
	require.LessOrEqual(t, a.Until, b.Ended, "who was paused has lost its lease when another has one")
	require.LessOrEqual(t, a.Until, stopped.Began+o.TTL, "and nobody renewed it meanwhile")
	require.Equal(t, history.Refused, find("A", history.Write).Outcome)
	require.Equal(t, stopped.Ended, find("A", history.Write).Began, "it is asked for when A goes on")
	require.Less(t, b.Began, a.Until, "B waits")
	require.Equal(t, a.Number, find("A", history.Claim).Number)
	require.Equal(t, "balance 120", find("judge", history.Read).Note)
}
