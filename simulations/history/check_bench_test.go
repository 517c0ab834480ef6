package history_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/simulations/history"
)

// crowd is a correct history of n ops, of all kinds, on four resources, by six
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
