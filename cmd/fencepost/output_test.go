package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// statusClosedPipe is 128 and the number of SIGPIPE.
const statusClosedPipe = 141

// prints are command lines that print without a server.
var prints = []string{
	"--help", "help", "help marks prune", "migrate --help", "run --help", "--version", "version", "migrate print",
	"simulate --rounds 1 --json", "simulate --rounds 1 --json --html /dev/stdout",
}

func TestAClosedPipeIsQuiet(t *testing.T) {
	t.Parallel()
	for _, args := range append(prints, "simulate --rounds 1") {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			reader, writer, err := os.Pipe()
			require.NoError(t, err)
			require.NoError(t, reader.Close())
			defer writer.Close()
			done := printing(t, writer, args)
			require.Equal(t, statusClosedPipe, done.status, done.err)
			require.NotContains(t, done.err, "fencepost", "only progress")
			requireEmpty(t, done.temp)
		})
	}
}

// printing runs the command with out as its standard output.
func printing(t *testing.T, out *os.File, args string) finished {
	t.Helper()
	cmd, temp := command(t, strings.Split(args, " ")...)
	var errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = out, &errs
	_ = cmd.Run()
	return finished{err: errs.String(), status: cmd.ProcessState.ExitCode(), temp: temp}
}
