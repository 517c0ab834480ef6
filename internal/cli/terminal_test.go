package cli

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestColoursAreForTerminals(t *testing.T) { // sets the environment: not parallel
	device, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0) // a character device, as a terminal is
	require.NoError(t, err)
	defer device.Close()
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	require.Equal(t, "\x1b[31mlost\x1b[0m", NewStyle(device).Red("lost"))
	file, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	defer file.Close()
	require.Equal(t, "lost", NewStyle(file).Red("lost"))
	t.Setenv("TERM", "dumb")
	require.Equal(t, "lost", NewStyle(device).Red("lost"))
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "1")
	require.Equal(t, "lost", NewStyle(device).Red("lost"))
}
