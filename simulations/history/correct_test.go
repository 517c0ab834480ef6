package history_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/simulations/history"
)

func TestNoCorrectHistoryIsAccused(t *testing.T) {
	t.Parallel()
	seen := map[history.Kind]map[history.Outcome]int{}
	for seed := range uint64(1000) {
		h := history.History{Ops: newWorld(seed, "account/1").live(2+int(seed%4), 60)}
		require.Empty(t, broken(t, h), "seed %d", seed)
		for _, op := range h.Ops {
			if seen[op.Kind] == nil {
				seen[op.Kind] = map[history.Outcome]int{}
			}
			seen[op.Kind][op.Outcome]++
		}
	}
	for _, kind := range []history.Kind{history.Claim, history.Write, history.Unit} {
		for _, outcome := range []history.Outcome{history.Accepted, history.Refused, history.Unknown, history.Failed} {
			require.Greater(t, seen[kind][outcome], 100, "%s %s", kind, outcome)
		}
	}
}

// The second opinion must not be bought by looking at little: the same
// histories, with one op changed, are told apart in opinion_test.go.
func TestTheSecondOpinionOfCorrectHistoriesIsTheSame(t *testing.T) {
	t.Parallel()
	for seed := range uint64(500) {
		h := history.History{Ops: newWorld(seed, "account/1").live(3, 60)}
		require.NoError(t, history.SecondOpinion(h, time.Minute), "seed %d", seed)
	}
}

// Began may be earlier than the truth, and Ended later.
func TestNoCorrectHistoryIsAccusedForBeingVague(t *testing.T) {
	t.Parallel()
	for seed := range uint64(500) {
		w := newWorld(seed, "account/1")
		h := history.History{Ops: w.live(3, 60)}
		for i := range h.Ops {
			h.Ops[i].Began -= time.Duration(w.rng.IntN(50)) * time.Millisecond
			h.Ops[i].Ended += time.Duration(w.rng.IntN(50)) * time.Millisecond
		}
		require.Empty(t, broken(t, h), "seed %d", seed)
	}
}

// Any answer may be lost.
func TestNoCorrectHistoryIsAccusedForLostAnswers(t *testing.T) {
	t.Parallel()
	for seed := range uint64(500) {
		w := newWorld(seed, "account/1")
		h := history.History{Ops: w.live(3, 60)}
		for i := range h.Ops {
			if op := &h.Ops[i]; w.rng.IntN(3) == 0 {
				op.Outcome, op.Until, op.Counted, op.Seen, op.Made = history.Unknown, 0, 0, 0, 0
			}
		}
		require.Empty(t, broken(t, h), "seed %d", seed)
	}
}
