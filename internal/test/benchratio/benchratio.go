// Package benchratio measures the cost of a guarded call relative to an unguarded one.
package benchratio

import (
	"testing"
	"time"
)

// block is how many calls are made before the next function's turn: few enough that
// changes of the machine affect all alike, enough that each call finds its caches warm.
const block = 16

// Report calls baseline, ours, and baseline again, in blocks that take turns, so that
// changes of the machine affect all three. It reports two ratios: "ratio" is ours to the
// baseline, and "a/a" is the baseline to itself, which is the noise. If a/a is far from
// 1, the run is useless.
func Report(b *testing.B, baseline, ours func() error) {
	b.Helper()
	calls := []func() error{baseline, ours, baseline}
	run := func(call func() error) time.Duration {
		start := time.Now()
		for range block {
			if err := call(); err != nil {
				b.Fatal(err)
			}
		}
		return time.Since(start)
	}
	for _, call := range calls { // connections, prepared statements, caches
		run(call)
	}
	var elapsed [3]time.Duration
	for n := 0; b.Loop(); n++ {
		for i := range calls {
			i = (i + n) % len(calls)
			elapsed[i] += run(calls[i])
		}
	}
	b.ReportMetric(float64(2*elapsed[1])/float64(elapsed[0]+elapsed[2]), "ratio")
	b.ReportMetric(float64(elapsed[2])/float64(elapsed[0]), "a/a")
	b.ReportMetric(0, "ns/op") // it would cover all three functions
}
