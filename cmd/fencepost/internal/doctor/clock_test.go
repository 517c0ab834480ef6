package doctor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/doctor"
)

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
		require.Equal(t, verdict, doctor.JudgeClock(bounds[0], bounds[1]), bounds)
	}
}
