package history_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/history"
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

// The second opinion accepts these histories. opinion_test.go changes single ops of the
// same histories, and there the second opinion must find fault.
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

// counted returns a correct history of n concurrent units, some of them unknown, and of
// reads between them. Each op is applied at an instant of its own.
func counted(rng *rand.Rand, n int) history.History {
	var h history.History
	var applied []time.Duration
	around := func(op history.Op, at time.Duration) {
		op.Writer, op.Resource = "A", "account/42"
		op.Began, op.Ended = at-time.Duration(rng.IntN(200)), at+time.Duration(rng.IntN(200))
		h.Ops = append(h.Ops, op)
	}
	for range n {
		at := time.Duration(rng.IntN(1000)) * 2
		op := history.Op{Kind: history.Unit, Outcome: history.Accepted}
		if rng.IntN(5) == 0 {
			op.Outcome = history.Unknown
		}
		applied = append(applied, at)
		around(op, at)
	}
	for range n / 2 {
		at := time.Duration(rng.IntN(1000))*2 + 1
		op := history.Op{Kind: history.Read, Outcome: history.Accepted}
		for _, unit := range applied {
			if unit < at {
				op.Counted++
			}
		}
		around(op, at)
	}
	return h
}

func TestManyUnitsAtOnceAreCounted(t *testing.T) {
	t.Parallel()
	accused := 0
	for seed := range uint64(1000) {
		rng := rand.New(rand.NewPCG(seed, 5))
		h := counted(rng, 24)
		require.Empty(t, broken(t, h), "seed %d", seed)
		read := len(h.Ops) - 1 - rng.IntN(6)
		h.Ops[read].Counted += 2*rng.IntN(2) - 1
		found := broken(t, h)
		err := history.SecondOpinion(h, time.Minute)
		require.Equal(t, len(found) > 0, err != nil, "seed %d: %v, %v", seed, found, err)
		if len(found) > 0 {
			accused++
			require.Equal(t, []string{"once"}, ids(broken(t, history.History{Ops: found[0].Ops})), "seed %d: %v", seed, found[0])
		}
	}
	require.Greater(t, accused, 20)
}

// changes are functions that change one op, so that a history may become incorrect.
var changes = []func(*rand.Rand, *history.Op){
	func(rng *rand.Rand, op *history.Op) {
		op.Outcome = []history.Outcome{history.Accepted, history.Refused, history.Unknown, history.Failed}[rng.IntN(4)]
		if op.Outcome == history.Accepted && op.Kind == history.Acquire && op.Number == 0 {
			op.Outcome = history.Refused
		}
	},
	func(rng *rand.Rand, op *history.Op) {
		if op.Number > 0 {
			op.Number = max(1, op.Number+int64(rng.IntN(7)-3))
		}
	},
	func(rng *rand.Rand, op *history.Op) {
		if op.Holder != "" {
			op.Holder = "stranger"
		}
	},
	func(rng *rand.Rand, op *history.Op) {
		late := time.Duration(rng.IntN(200)-100) * time.Millisecond
		op.Began, op.Ended = op.Began+late, op.Ended+late
	},
	func(rng *rand.Rand, op *history.Op) { op.Ended = op.Began + (op.Ended-op.Began)/4 },
	func(rng *rand.Rand, op *history.Op) {
		if op.Kind == history.Read {
			op.Counted += rng.IntN(3) - 1
		}
	},
	func(rng *rand.Rand, op *history.Op) {
		if op.Made > 0 {
			op.Made = max(1, op.Made+int64(rng.IntN(3)-1))
		}
	},
	func(_ *rand.Rand, op *history.Op) {
		if op.Seen > 0 {
			op.Seen++
		}
	},
	func(rng *rand.Rand, op *history.Op) {
		if op.Kind == history.Unit {
			op.Traced, op.Counted = true, rng.IntN(3)
		}
	},
}

// spoil returns ops with one to three of them changed or removed.
func spoil(rng *rand.Rand, ops []history.Op) []history.Op {
	ops = slices.Clone(ops)
	for range 1 + rng.IntN(3) {
		i := rng.IntN(len(ops))
		if rng.IntN(6) == 0 {
			ops = slices.Delete(ops, i, i+1)
			continue
		}
		changes[rng.IntN(len(changes))](rng, &ops[i])
	}
	return ops
}

// A checker that compared every op with every other would need a million times a million
// steps, and the test would time out.
func TestStressAMillionOpsAreChecked(t *testing.T) {
	require.Empty(t, broken(t, crowd(1_000_000)))
}

// crowd returns a correct history of n ops of all kinds, on four resources with six
// writers each, with pauses, refusals and lost answers.
func crowd(n int) history.History {
	h := history.History{TTL: time.Hour, Bound: time.Hour}
	for i := range 4 {
		h.Ops = append(h.Ops, newWorld(uint64(i), fmt.Sprintf("account/%d", i)).live(6, n/4)...)
	}
	slices.SortFunc(h.Ops, func(a, b history.Op) int { return int(a.Ended - b.Ended) })
	return h
}

func BenchmarkCheck(b *testing.B) {
	for _, n := range []int{250_000, 1_000_000} {
		h := crowd(n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				broken, err := history.Check(h)
				require.NoError(b, err)
				require.Empty(b, broken)
			}
		})
	}
}
