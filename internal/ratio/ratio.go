// Package ratio measures what a guarded call costs beside the unguarded one.
package ratio

import (
	"testing"
	"time"
)

// block is how many calls are made before the next one's turn: few enough that
// the machine treats all alike, enough that each finds its own caches warm.
const block = 16

// Report calls baseline, ours, and baseline again, in blocks that take turns, so
// that whatever else the machine does happens to all three, and reports two
// ratios: "ratio"
// is ours to the baseline, and "a/a" the baseline to itself, which is the
// noise. A run whose a/a is far from 1 says nothing.
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
	var spent [3]time.Duration
	for n := 0; b.Loop(); n++ {
		for i := range calls {
			i = (i + n) % len(calls)
			spent[i] += run(calls[i])
		}
	}
	b.ReportMetric(float64(2*spent[1])/float64(spent[0]+spent[2]), "ratio")
	b.ReportMetric(float64(spent[2])/float64(spent[0]), "a/a")
	b.ReportMetric(0, "ns/op") // of the three together: nobody's
}
