package main

import (
	"bytes"
	"net/url"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
)

// typing runs the command with input on its standard input.
func typing(t *testing.T, input string, args ...string) finished {
	t.Helper()
	cmd, temp := command(t, args...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &errs
	if err := cmd.Run(); err != nil {
		require.IsType(t, &exec.ExitError{}, err)
	}
	return finished{out: out.String(), err: errs.String(), status: cmd.ProcessState.ExitCode(), temp: temp}
}

func TestMigrateDownAsks(t *testing.T) {
	t.Parallel()
	server := testenv.Database(t)
	require.Zero(t, execute(t, "migrate", "up", "--postgres", server).status)
	for name, c := range map[string]struct {
		typed string
		args  []string
	}{
		"nothing is typed":          {"", nil},
		"yes is typed":              {"yes\n", nil},
		"another name is typed":     {"fencepos\n", nil},
		"another name is in a flag": {"fencepost\n", []string{"--confirm", "Fencepost"}},
	} {
		done := typing(t, c.typed, append([]string{"migrate", "down", "--postgres", server}, c.args...)...)
		require.Equal(t, 2, done.status, name)
		require.Empty(t, done.out, name)
		require.Contains(t, done.err, "nothing was changed: ", name)
		require.Equal(t, c.typed == "", strings.Contains(done.err, "Type the schema's name to go on: \nfencepost: "), "the prompt's line ends: %s", name)
		require.Zero(t, execute(t, "migrate", "status", "--postgres", server).status, name)
	}
	done := typing(t, "fencepost\n", "migrate", "down", "--postgres", server)
	require.Zero(t, done.status, done.err)
	require.Equal(t, each(reversed(files(t)), "", " is gone"), done.out)
	u, err := url.Parse(server)
	require.NoError(t, err)
	require.Equal(t, "This empties schema \"fencepost\" of database \""+u.Path[1:]+"\" at "+u.Host+".\n"+
		"It forgets all marks: what was refused before would be admitted again. Stop all writers first.\n"+
		"Type the schema's name to go on: ", done.err)
}
