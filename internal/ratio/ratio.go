// Package ratio measures what a guarded call costs beside the unguarded one.
package ratio

import (
	"testing"
	"time"
)

// Report calls baseline, ours, and baseline again, in turns, so that whatever
// else the machine does happens to all three, and reports two ratios: "ratio"
// is ours to the baseline, and "a/a" the baseline to itself, which is the
// noise. A run whose a/a is far from 1 says nothing.
func Report(b *testing.B, baseline, ours func() error) {
	b.Helper()
	calls := []func() error{baseline, ours, baseline}
	var spent [3]time.Duration
	for range 20 { // connections, prepared statements, caches
		for _, call := range calls {
			if err := call(); err != nil {
				b.Fatal(err)
			}
		}
	}
	for n := 0; b.Loop(); n++ {
		for i := range calls {
			i = (i + n) % len(calls)
			start := time.Now()
			if err := calls[i](); err != nil {
				b.Fatal(err)
			}
			spent[i] += time.Since(start)
		}
	}
	b.ReportMetric(float64(2*spent[1])/float64(spent[0]+spent[2]), "ratio")
	b.ReportMetric(float64(spent[2])/float64(spent[0]), "a/a")
	b.ReportMetric(0, "ns/op") // of the three together: nobody's
}
