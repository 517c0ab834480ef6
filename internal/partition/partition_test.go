package partition_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// hazard L1
func TestTheHolderHearsOfAPartitionBeforeSomebodyElseHasTheResource(t *testing.T) {
	for name, start := range sites {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var leads []time.Duration
			for n := rounds(t); len(leads) < n; {
				leads = append(leads, batch(t, start(t), hold, min(atOnce, n-len(leads)))...)
			}
			t.Log(summary(t, leads))
			require.Zero(t, tooLate(leads), "two of them worked at once")
		})
	}
}

// hazard L1
func TestWhoAwaitsAFailedRenewalHearsOfAPartitionTooLate(t *testing.T) {
	t.Parallel()
	deaf := onRedis(t)
	deaf.faults = mute[:1]
	leads := batch(t, deaf, holdNaively, 4)
	t.Log(summary(t, leads))
	require.Equal(t, len(leads), tooLate(leads), "a lock without a deadline must be too late")
}
