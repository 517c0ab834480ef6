package cli

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseDuration(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for text, expected := range map[string]time.Duration{
		"0": 0, "0s": 0, "0d": 0, "30d": 30 * day, "2w": 14 * day, "1d12h": 36 * time.Hour, "1w1d1h1m1s": 8*day + time.Hour + time.Minute + time.Second,
		"1.5d": 36 * time.Hour, ".5w": 84 * time.Hour, "1.h": time.Hour, "+10m": 10 * time.Minute, "100ms": 100 * time.Millisecond,
		"3us4µs5μs": 12 * time.Microsecond, "7ns": 7, "106751d": 106751 * day, "9223372036854775807ns": 1<<63 - 1,
	} {
		d, err := ParseDuration(text)
		require.NoError(t, err, text)
		require.Equal(t, expected, d, text)
	}
	for _, text := range []string{
		"", "soon", "1d ", "1d,2h", ".", "30", "1h30", "5y", "1D", "5days", "1.2.3d", ".d", "5ds", "1h-1m", "1d-1h", "106752d", "106751d24h",
		"99999999999999999999w", "9223372036854775808ns", "15250w2d",
	} {
		_, err := ParseDuration(text)
		require.EqualError(t, err, fmt.Sprintf("%q is not a duration, as 90s, 1h30m, 30d or 2w, of at most 292 years", text))
	}
	for _, text := range []string{"-1s", "-1d", "-9223372036854775808ns"} {
		_, err := ParseDuration(text)
		require.EqualError(t, err, fmt.Sprintf("%q: a duration cannot be negative", text))
	}
}

func FuzzParseDuration(f *testing.F) {
	for _, seed := range []string{"1d12h", "2w", "-1s", "1.5h", "30", "9223372036854775807ns"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseDuration(text)
		require.GreaterOrEqual(t, d, time.Duration(0))
		if expected, stdErr := time.ParseDuration(text); stdErr == nil && expected >= 0 {
			require.NoError(t, err, text)
			require.Equal(t, expected, d, text)
		}
	})
}
