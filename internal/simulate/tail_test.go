package simulate_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/simulate"
)

func TestTail(t *testing.T) {
	t.Parallel()
	require.Empty(t, simulate.Tail())
	require.Equal(t, "one two", simulate.Tail("one\n", "\ttwo\n"))
	long := simulate.Tail(strings.Repeat("x", 10_000), "the end")
	require.Len(t, long, 4096)
	require.True(t, strings.HasSuffix(long, "xthe end"))
}
