// Package cost has what figures compare besides time.
package cost

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/fencepost/fencepost/bench/measure"
)

// Elapsed is the time of an operation in nanoseconds. It is the share of a whole
// block, with what its garbage costs: a median of operations would leave that out.
func Elapsed(_ context.Context, n int, block func() error) (float64, error) {
	start := time.Now()
	err := block()
	return float64(time.Since(start).Nanoseconds()) / float64(n), err
}

// Allocated is how many objects an operation allocates. All that the process does
// meanwhile is counted.
func Allocated(_ context.Context, n int, block func() error) (float64, error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := block()
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / float64(n), err
}

// Counted is by how much a count grows in an operation.
func Counted(count func() int64) measure.Cost {
	return func(_ context.Context, n int, block func() error) (float64, error) {
		before := count()
		err := block()
		return float64(count()-before) / float64(n), err
	}
}

var kept atomic.Pointer[[4]int]

// One allocates one object, with which allocations are counted: a ratio to it is
// their number.
func One(context.Context, int) error {
	kept.Store(new([4]int))
	return nil
}
