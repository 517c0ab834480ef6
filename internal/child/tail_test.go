package child_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/child"
)

func TestTail(t *testing.T) {
	t.Parallel()
	require.Empty(t, child.Tail())
	require.Equal(t, "one two", child.Tail("one\n", "\ttwo\n"))
	long := child.Tail(strings.Repeat("x", 10_000), "the end")
	require.Len(t, long, 4096)
	require.True(t, strings.HasSuffix(long, "xthe end"))
}
