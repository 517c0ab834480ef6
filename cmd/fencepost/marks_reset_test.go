package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
)

func TestMarksReset(t *testing.T) { onEach(t, testMarksReset) }

func testMarksReset(t *testing.T, newMarked func(t *testing.T) *marked) {
	t.Run("lowers the mark of a forged token to the clock after the resource is typed", func(t *testing.T) {
		t.Parallel()
		m := newMarked(t)
		old := m.ago(time.Minute)
		m.admit("account/42", poison, "forged")
		require.ErrorContains(t, m.tryAdmit("account/42", m.ago(0), "next"), "stale token")
		low := m.ago(0)
		done := m.typing("account/42\n", "reset", "account/42")
		require.Zero(t, done.status, done.err)
		n, holder := m.mark("account/42")
		require.GreaterOrEqual(t, n, low)
		require.LessOrEqual(t, n, m.ago(0))
		require.Regexp(t, "^reset/.+/.+", holder)
		require.Regexp(t, `^The mark of account/42 is 999999999999999 \(2286-11-20T17:46:39.99Z, \d+d ahead\), of forged.\nType the resource to lower its mark: $`, done.err)
		require.Contains(t, done.out, fmt.Sprintf("The mark of account/42 was 999999999999999, of forged. It is %d (%s) now.", n, date(n)))
		require.ErrorContains(t, m.tryAdmit("account/42", old, "zombie"), "stale token")
		require.NoError(t, m.tryAdmit("account/42", m.ago(0), "next"))
	})
	t.Run("takes the resource as a flag, and prints JSON", func(t *testing.T) {
		t.Parallel()
		m := newMarked(t)
		m.admit(" account/42 ", poison, "forged")
		done := m.run("reset", " account/42 ", "--confirm", " account/42 ", "--json")
		require.Zero(t, done.status, done.err)
		require.Empty(t, done.err)
		object := objects(t, done.out)[0]
		n, _ := m.mark(" account/42 ")
		require.Less(t, n, int64(poison))
		require.Equal(t, " account/42 ", object["resource"])
		require.Equal(t, fmt.Sprint(n), object["number"])
		require.Equal(t, map[string]any{"number": "999999999999999", "holder": "forged", "time": "2286-11-20T17:46:39.99999Z"}, object["old"])
	})
	t.Run("takes a number", func(t *testing.T) {
		t.Parallel()
		m := newMarked(t)
		m.admit("account/42", 50, "a")
		done := m.run("reset", "account/42", "--confirm", "account/42", "--number", "40")
		require.Zero(t, done.status, done.err)
		n, _ := m.mark("account/42")
		require.Equal(t, int64(40), n)
		if m.pool != nil {
			require.Contains(t, done.out, "SET last_token = 40, ", "the clock may be above every number of the issuer")
		}
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
	t.Run("refuses before it asks", func(t *testing.T) {
		t.Parallel()
		m := newMarked(t)
		m.admit("account/42", 50, "a")
		m.raiseFloor(45)
		for args, text := range map[string]string{
			"account/42":             "the mark of account/42 is not above the server's clock, so issuers reach it: --number=N resets it all the same",
			"account/43":             "account/43 has no mark: nothing to reset",
			"account/42 --number 44": "marks: number 44 must be at least 45: ", "account/42 --number 0": "marks: number 0 must be at least 45: ",
			"account/42 --number 999999999999999":     "marks: number 999999999999999 is 2286-11-20T17:46:39.99Z, 9",
			"account/42 --number 9223372036854775807": "marks: number 9223372036854775807 must be at most 999999999999999\n",
			"account/42 --wait 0s":                    "wait: 0s: must be at least 1ms",
		} {
			done := m.run(append([]string{"reset"}, strings.Fields(args)...)...)
			require.Equal(t, 2, done.status, args)
			require.Contains(t, done.err, text)
			require.NotContains(t, done.err, "Type the resource")
		}
		n, _ := m.mark("account/42")
		require.Equal(t, int64(50), n)
	})
	t.Run("waits for the writers that are admitted, and not for ever", func(t *testing.T) {
		t.Parallel()
		m := newMarked(t)
		m.admit("account/42", poison, "forged")
		writer := m.write("account/42")
		requireFailed(t, m.run("reset", "account/42", "--confirm", "account/42", "--wait", "20ms"), 2, "a writer is still admitted for account/42, see ")
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
}

// Behind a pooler, other clients get the session that a command has used. A limit of its waits,
// left there, would make their writes fail.
//
// hazard P8
func TestMarksResetLeavesNoSettingInASessionOfAPooler(t *testing.T) {
	t.Parallel()
	m := newMarked(t)
	m.admit("account/42", poison, "forged")
	pooler := testenv.PgBouncer(t)
	config, err := pgx.ParseConfig(pooler)
	require.NoError(t, err)
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	m.flags[1] = pooler
	done := m.run("reset", "account/42", "--confirm", "account/42")
	require.Zero(t, done.status, done.err)
	client, err := pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	defer client.Close(context.WithoutCancel(t.Context()))
	require.Equal(t, "0", pgtest.Query[string](t, client, "SELECT current_setting('lock_timeout')"))
}

// A wait without end, and a role whose transactions are SERIALIZABLE.
func TestMarksResetSetsItsOwnTransaction(t *testing.T) {
	t.Parallel()
	m := newMarked(t)
	m.admit("account/42", poison, "forged")
	server, err := url.Parse(m.flags[1])
	require.NoError(t, err)
	query := server.Query()
	query.Set("default_transaction_isolation", "serializable")
	server.RawQuery = query.Encode()
	m.flags[1] = server.String()
	done := m.run("reset", "account/42", "--confirm", "account/42", "--wait", "9999h")
	require.Zero(t, done.status, done.err)
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
	var prompt strings.Builder
	for !strings.HasSuffix(prompt.String(), "Type the resource to lower its mark: ") {
		_, err := io.CopyN(&prompt, screen, 1)
		require.NoError(t, err)
	}
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
