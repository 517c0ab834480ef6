package history_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A checker that compared every op with every other would take 6,400 times as
// long for 80 times as many; one that sorts takes little more than 80 times. The
// wide gap, and the best of three, keep what else the machine does out of it.
func TestEightyTimesTheOpsTakeLittleMoreThanEightyTimesAsLong(t *testing.T) {
	few, many := crowd(5_000), crowd(400_000)
	best := func(judge func()) time.Duration {
		least := time.Hour
		for range 3 {
			begun := time.Now()
			judge()
			least = min(least, time.Since(begun))
		}
		return least
	}
	short := best(func() { require.Empty(t, broken(t, few)) })
	long := best(func() { require.Empty(t, broken(t, many)) })
	t.Logf("%d ops in %v, %d in %v: %.1f times as long", len(few.Ops), short, len(many.Ops), long, float64(long)/float64(short))
	require.Less(t, float64(long)/float64(short), 1000.0)
}
