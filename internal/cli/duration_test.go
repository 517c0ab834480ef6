package cli

import (
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
	for text, expected := range map[string]string{
		"":                      `"" is not a duration, as 90s, 1h30m, 30d or 2w`,
		"soon":                  `"soon" is not a duration, as 90s, 1h30m, 30d or 2w`,
		"1d ":                   `"1d ": "d " is not a unit: use w, d, h, m, s, ms, us or ns`,
		"1d,2h":                 `"1d,2h": "d," is not a unit: use w, d, h, m, s, ms, us or ns`,
		".":                     `"." is not a duration, as 90s, 1h30m, 30d or 2w`,
		"30":                    `"30": the number 30 has no unit, as 30s`,
		"1h30":                  `"1h30": the number 30 has no unit, as 30s`,
		"5y":                    `"5y": "y" is not a unit: use w, d, h, m, s, ms, us or ns`,
		"1D":                    `"1D": "D" is not a unit: use w, d, h, m, s, ms, us or ns`,
		"-1s":                   `"-1s": a duration cannot be negative`,
		"1h-1m":                 `"1h-1m": "h-" is not a unit: use w, d, h, m, s, ms, us or ns`,
		"106752d":               `"106752d": longer than 292 years`,
		"106751d24h":            `"106751d24h": longer than 292 years`,
		"99999999999999999999w": `"99999999999999999999w": longer than 292 years`,
		"9223372036854775808ns": `"9223372036854775808ns": longer than 292 years`,
		"15250w2d":              `"15250w2d": longer than 292 years`,
	} {
		_, err := ParseDuration(text)
		require.EqualError(t, err, expected)
	}
}

func FuzzParseDuration(f *testing.F) {
	for _, seed := range []string{"1d12h", "2w", "-1s", "1.5h", "30", "9223372036854775807ns"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseDuration(text)
		require.GreaterOrEqual(t, d, time.Duration(0))
		if expected, stdErr := time.ParseDuration(text); stdErr == nil && expected >= 0 && text[0] != '-' {
			require.NoError(t, err, text)
			require.InDelta(t, expected, d, 1, text) // two fractions are rounded down each
		}
	})
}
