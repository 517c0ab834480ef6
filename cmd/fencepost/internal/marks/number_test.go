package marks

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSpan(t *testing.T) {
	t.Parallel()
	for d, text := range map[time.Duration]string{
		0: "0.0s", 1234 * time.Millisecond: "1.2s", time.Minute: "1m0s", 47*time.Hour + 1600*time.Millisecond: "47h0m2s",
		48 * time.Hour: "2d", 30*24*time.Hour + time.Hour: "30d", 260 * 365 * 24 * time.Hour: "94900d",
	} {
		require.Equal(t, text, formatAge(d))
	}
}
