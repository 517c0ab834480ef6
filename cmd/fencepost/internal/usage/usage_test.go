package usage

import (
	"os"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/cli"
)

type testCmd struct {
	NoColor NoColor
	Keep    time.Duration `default:"1w"`
	Color   struct{}      `cmd:""`
}

func (c *testCmd) Run(std cli.Streams, text *string) error {
	*text = cli.NewStyle(std.Out).Red("lost") + " " + c.Keep.String()
	return nil
}

func TestNoColorAndDurations(t *testing.T) { // sets the environment: not parallel
	device, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0) // a character device, as a terminal is
	require.NoError(t, err)
	defer device.Close()
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	for expected, args := range map[string][]string{
		"\x1b[31mlost\x1b[0m 168h0m0s": {"color"},
		"lost 36h0m0s":                 {"--no-color", "color", "--keep", "1d12h"},
	} {
		var text string
		parser, err := kong.New(&testCmd{}, append(Options(), kong.Bind(cli.Streams{Out: device}, &text))...)
		require.NoError(t, err)
		command, err := parser.Parse(args)
		require.NoError(t, err)
		require.NoError(t, command.Run())
		require.Equal(t, expected, text)
	}
}

func TestAddress(t *testing.T) {
	t.Parallel()
	for text, expected := range map[string]string{
		"8080": "127.0.0.1:8080", ":8080": "127.0.0.1:8080", "0": "127.0.0.1:0", "localhost:80": "localhost:80", "0.0.0.0:65535": "0.0.0.0:65535",
		"[::]:80": "[::]:80", "[fe80::1%eth0]:80": "[fe80::1%eth0]:80",
	} {
		var a Address
		require.NoError(t, a.UnmarshalText([]byte(text)), text)
		require.EqualValues(t, expected, a)
	}
	for _, text := range []string{"", ":", "host", "host:", "127.0.0.1", "::1", "::1:80", "[::1]", "[::1]80", ":http", ":65536", "-1", ":+1", "1:2:3", "80/tcp", "http://h:80"} {
		var a Address
		require.ErrorContains(t, a.UnmarshalText([]byte(text)), "is not an address to listen on", text)
		require.Empty(t, a)
	}
}
