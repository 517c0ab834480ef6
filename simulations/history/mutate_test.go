package history_test

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fencepost/fencepost/simulations/history"
)

// changes each spoil one op, so that a history may become an incorrect one.
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

// spoil changes, or takes away, up to three of ops.
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
