package testenv_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
)

func TestRoundsAreAsManyAsTheEnvironmentSays(t *testing.T) {
	const variable = "FENCEPOST_TESTENV_TEST_ROUNDS"
	require.Equal(t, 7, testenv.Rounds(t, variable, 7))
	t.Setenv(variable, "1000")
	require.Equal(t, 1000, testenv.Rounds(t, variable, 7))
	for _, odd := range []string{"0", "-1", "many", "1e3"} {
		t.Setenv(variable, odd)
		ended := &ended{TB: t}
		require.PanicsWithValue(t, ended, func() { testenv.Rounds(ended, variable, 7) })
		require.Contains(t, ended.text, odd)
	}
}

// ended is a test that notes why it is ended.
type ended struct {
	testing.TB
	text string
}

func (e *ended) Fatalf(format string, args ...any) {
	e.text = fmt.Sprintf(format, args...)
	panic(e)
}
