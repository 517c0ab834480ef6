package kernel_test

import (
	"testing"

	"github.com/fencepost/fencepost/internal/kernel"
)

// A schedule is this twice: guarded, and as the control.
func BenchmarkPlay(b *testing.B) {
	for name, observe := range map[string]bool{"guarded": false, "the control": true} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var p kernel.Player
			seed := uint64(0)
			for b.Loop() {
				seed++
				if _, err := p.Play(1+seed%1000, kernel.Setting{Faults: kernel.All, Observe: observe}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
