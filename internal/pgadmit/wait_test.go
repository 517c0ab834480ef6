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
