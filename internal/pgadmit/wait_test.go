package pgadmit_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/pgadmit"
)

func TestWait(t *testing.T) {
	t.Parallel()
	for bound, want := range map[time.Duration]pgadmit.Wait{
		0: pgadmit.WaitForever, 1: 1, time.Millisecond: 1, time.Millisecond + 1: 2, time.Second: 1000, math.MaxInt64: math.MaxInt32,
	} {
		require.Equal(t, want, pgadmit.WaitFor(bound), bound.String())
	}
	require.Negative(t, pgadmit.NoRaise)
}

// No number of the text is above 2³¹, which PostgreSQL 13 would refuse.
func TestInterval(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		30 * 24 * time.Hour: "720h0m0s", 1500*time.Millisecond + 1: "1.5s", math.MaxInt64: "2562047h47m16.854s",
	} {
		require.Equal(t, want, pgadmit.Interval(d))
	}
}
