package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// A failed write is not an error in the command line, whose message names a --help.
func TestAFullDiskIsNoErrorOfUsage(t *testing.T) {
	t.Parallel()
	for _, args := range prints {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
			require.NoError(t, err)
			defer full.Close()
			done := printing(t, full, args)
			require.Equal(t, 2, done.status)
			require.Regexp(t, `^fencepost: (?:html: /dev/stdout was not written: )?write /dev/stdout: no space left on device\n$`, done.err)
			requireEmpty(t, done.temp)
		})
	}
}
