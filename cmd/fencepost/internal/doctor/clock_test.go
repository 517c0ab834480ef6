package doctor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/doctor"
)

func TestEachLookNarrowsTheDifference(t *testing.T) {
	t.Parallel()
	least, most := doctor.Narrow([2]time.Duration{-5, 9}, [2]time.Duration{-2, 12}, [2]time.Duration{-7, 4})
	require.Equal(t, [2]time.Duration{-2, 4}, [2]time.Duration{least, most})
	least, most = doctor.Narrow([2]time.Duration{1, 2}, [2]time.Duration{10, 11})
	require.Equal(t, [2]time.Duration{1, 11}, [2]time.Duration{least, most}, "a clock was set in between")
}

func TestClocksAreComparedByTheirLeastDifference(t *testing.T) {
	t.Parallel()
	for bounds, verdict := range map[[2]time.Duration]doctor.Verdict{
		{-time.Millisecond, time.Millisecond}:             doctor.Pass,
		{900 * time.Millisecond, 2900 * time.Millisecond}: doctor.Pass,
		{-5 * time.Second, 5 * time.Second}:               doctor.Unknown,
		{-2 * time.Hour, 2 * time.Hour}:                   doctor.Unknown,
		{1100 * time.Millisecond, 2 * time.Second}:        doctor.Warn,
		{-2 * time.Second, -1100 * time.Millisecond}:      doctor.Warn,
		{2 * time.Second, 2 * time.Hour}:                  doctor.Warn,
		{time.Hour, time.Hour}:                            doctor.Fail,
		{-time.Hour, -61 * time.Second}:                   doctor.Fail,
	} {
		require.Equal(t, verdict, doctor.Judge(bounds[0], bounds[1]), bounds)
	}
}
