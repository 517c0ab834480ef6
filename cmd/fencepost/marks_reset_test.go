package main

import (
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMarksReset(t *testing.T) { onEach(t, testMarksReset) }

func testMarksReset(t *testing.T, newMarked func(t *testing.T) *marked) {
	t.Run("lowers the mark of a forged token to the clock after the resource is typed", func(t *testing.T) {
		t.Parallel()
		m := newMarked(t)
		m.admit("account/42", poison, "forged")
		low := m.ago(0)
		done := m.typing("account/42\n", "reset", "account/42")
		require.Zero(t, done.status, done.err)
		n, holder := m.mark("account/42")
		require.GreaterOrEqual(t, n, low)
		require.LessOrEqual(t, n, m.ago(0))
		require.Regexp(t, "^reset/.+/.+", holder)
		require.Contains(t, done.out, "The mark of account/42 is 999999999999999 (2286-11-20 17:46:39.99 UTC, ")
		require.Contains(t, done.out, fmt.Sprintf("It is %d (%s) now.", n, date(n)))
		require.Equal(t, "Type the resource to lower its mark: ", done.err)
	})
	t.Run("takes the resource as a flag", func(t *testing.T) {
		t.Parallel()
		m := newMarked(t)
		m.admit(" account/42 ", poison, "forged")
		done := m.run("reset", " account/42 ", "--confirm", " account/42 ")
		require.Zero(t, done.status, done.err)
		require.Empty(t, done.err)
		n, _ := m.mark(" account/42 ")
		require.Less(t, n, int64(poison))
	})
	t.Run("takes a number", func(t *testing.T) {
		t.Parallel()
		m := newMarked(t)
		m.admit("account/42", 50, "a")
		done := m.run("reset", "account/42", "--confirm", "account/42", "--number", "40")
		require.Zero(t, done.status, done.err)
		n, _ := m.mark("account/42")
		require.Equal(t, int64(40), n)
	})
	t.Run("changes nothing for another answer", func(t *testing.T) {
		t.Parallel()
		m := newMarked(t)
		m.admit("account/42", poison, "forged")
		require.Contains(t, m.typing("", "reset", "account/42").err, "Type the resource to lower its mark: \nfencepost: ")
		for _, answer := range []string{"", "\n", "y\n", "yes\n", "account/4", "account/42 \n", " account/42\n", "Account/42\n", "account/421\n"} {
			done := m.typing(answer, "reset", "account/42")
			require.Equal(t, 2, done.status, "%q", answer)
			require.Contains(t, done.err, "fencepost: nothing was changed: ")
		}
		require.Equal(t, 2, m.run("reset", "account/42", "--confirm", "account/43").status)
		n, holder := m.mark("account/42")
		require.Equal(t, int64(poison), n)
		require.Equal(t, "forged", holder)
	})
	t.Run("has nothing to do for a mark that is not poisoned", func(t *testing.T) {
		t.Parallel()
		m := newMarked(t)
		m.admit("account/42", 50, "a")
		done := m.run("reset", "account/42", "--confirm", "account/42")
		require.Equal(t, 2, done.status)
		require.Contains(t, done.err, "the mark of account/42 is not above the server's clock, so issuers reach it: --number=N resets it all the same")
		done = m.run("reset", "account/43", "--confirm", "account/43")
		require.Equal(t, 2, done.status)
		require.Contains(t, done.err, "account/43 has no mark: nothing to reset")
		n, _ := m.mark("account/42")
		require.Equal(t, int64(50), n)
	})
	t.Run("says what the server refuses", func(t *testing.T) {
		t.Parallel()
		m := newMarked(t)
		m.admit("account/42", 50, "a")
		done := m.run("reset", "account/42", "--confirm", "account/42", "--number", fmt.Sprint(poison))
		require.Equal(t, 2, done.status)
		require.NotContains(t, done.err, "ERROR")
		require.Regexp(t, `marks: number 999999999999999 is 2286-11-20 17:46:39.99 UTC, \d+d ahead, more than a day: every token up to it would be refused`, done.err)
		m.raiseFloor(45)
		for args, text := range map[string]string{
			"--number 44": "marks: number 44 is below the floor, 45", "--number 0": "0: must be a whole number above 0", "--number -1": "-1: must be a whole number above 0",
			"--wait 0s": "wait: 0s: must be at least 1ms",
		} {
			done := m.run(append([]string{"reset", "account/42"}, strings.Fields(args)...)...)
			require.Equal(t, 2, done.status, args)
			require.Contains(t, done.err, text)
			require.NotContains(t, done.err, "Type the resource", "what cannot be done is not asked for")
		}
		require.Equal(t, 2, m.run("reset", "account/42", "--confirm", "account/42", "--number", fmt.Sprint(poison)).status)
		n, _ := m.mark("account/42")
		require.Equal(t, int64(50), n)
	})
	t.Run("waits for the writers that are admitted", func(t *testing.T) {
		t.Parallel()
		m := newMarked(t)
		m.admit("account/42", poison, "forged")
		writer := m.write("account/42")
		cmd, _ := command(t, m.args("reset", "account/42", "--confirm", "account/42", "--wait", "2m")...)
		require.NoError(t, cmd.Start())
		time.Sleep(50 * time.Millisecond) // it may not wait yet: then it finds the mark unlocked
		n, _ := m.mark("account/42")
		require.Equal(t, int64(poison), n)
		require.NoError(t, writer.Commit())
		require.NoError(t, cmd.Wait())
		n, _ = m.mark("account/42")
		require.Less(t, n, int64(poison))
	})
	t.Run("the next holder is admitted, and older ones are not", func(t *testing.T) {
		t.Parallel()
		m := newMarked(t)
		old := m.ago(time.Minute)
		m.admit("account/42", poison, "forged")
		require.Error(t, m.tryAdmit("account/42", m.ago(0), "next"))
		require.Zero(t, m.run("reset", "account/42", "--confirm", "account/42").status)
		require.ErrorContains(t, m.tryAdmit("account/42", old, "zombie"), "stale token")
		require.NoError(t, m.tryAdmit("account/42", m.ago(0), "next"))
	})
	t.Run("prints JSON", func(t *testing.T) {
		t.Parallel()
		m := newMarked(t)
		m.admit("account/42", poison, "forged")
		done := m.typing("account/42\n", "reset", "account/42", "--json")
		require.Zero(t, done.status, done.err)
		object := objects(t, done.out)[0]
		n, _ := m.mark("account/42")
		require.Equal(t, "account/42", object["resource"])
		require.Equal(t, fmt.Sprint(n), object["number"])
		require.Equal(t, map[string]any{"number": "999999999999999", "holder": "forged", "time": "2286-11-20T17:46:39.99999Z"}, object["old"])
		require.Contains(t, done.err, "The mark of account/42 is 999999999999999 (")
	})
	t.Run("does not wait for ever", func(t *testing.T) {
		t.Parallel()
		m := newMarked(t)
		m.admit("account/42", poison, "forged")
		m.write("account/42")
		done := m.run("reset", "account/42", "--confirm", "account/42", "--wait", "20ms")
		require.Equal(t, 2, done.status)
		require.Contains(t, done.err, "a writer is still admitted for account/42, see ")
		n, _ := m.mark("account/42")
		require.Equal(t, int64(poison), n)
	})
}

func TestMarksResetIsInterruptedAtThePrompt(t *testing.T) {
	t.Parallel()
	m := newMarked(t)
	m.admit("account/42", poison, "forged")
	cmd, _ := command(t, m.args("reset", "account/42")...)
	keyboard, err := cmd.StdinPipe()
	require.NoError(t, err)
	defer keyboard.Close()
	screen, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	prompt := make([]byte, len("Type the resource to lower its mark: "))
	_, err = io.ReadFull(screen, prompt)
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	select {
	case <-ended:
	case <-time.After(eventually):
		require.NoError(t, cmd.Process.Kill())
		require.Fail(t, "it waits for the keyboard")
	}
	require.Equal(t, 130, cmd.ProcessState.ExitCode())
	n, _ := m.mark("account/42")
	require.Equal(t, int64(poison), n)
}
