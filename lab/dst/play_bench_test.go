package dst_test

import (
	"testing"

	"github.com/fencepost/fencepost/lab/dst"
)

// One schedule plays a seed twice: guarded, and as the control.
func BenchmarkPlay(b *testing.B) {
	for name, ignoreRefusals := range map[string]bool{"guarded": false, "the control": true} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var p dst.Player
			seed := uint64(0)
			for b.Loop() {
				seed++
				if _, err := p.Play(1+seed%1000, dst.Setting{Faults: dst.All, IgnoreRefusals: ignoreRefusals}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
