package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
)

func TestMarksShow(t *testing.T) { onEach(t, testMarksShow) }

func testMarksShow(t *testing.T, newMarked func(t *testing.T) *marked) {
	t.Run("shows the mark and the floor", func(t *testing.T) {
		t.Parallel()
		m := newMarked(t)
		n := m.ago(time.Hour)
		m.admit("account/42", n, "worker 1")
		done := m.run("show", "account/42")
		require.Zero(t, done.status, done.err)
		for _, text := range []string{
			"account/42\n", fmt.Sprintf("  mark    %d\n  holder  worker 1\n", n), "  floor   0, nothing was pruned yet\n",
			map[bool]string{true: "No session of this database writes under the mark or waits for it. Who waits for the lock: see fencepost locks show.", false: "see SHOW ENGINE INNODB STATUS"}[m.pool != nil],
		} {
			require.Contains(t, done.out, text)
		}
		require.Regexp(t, `Z, 1h[0-9]+m`, done.out)
		require.NotContains(t, done.out, "forged")
	})
	t.Run("prints that the floor applies, with status 1", func(t *testing.T) {
		t.Parallel()
		m := newMarked(t)
		m.raiseFloor(1000)
		done := m.run("show", "account/42")
		require.Equal(t, 1, done.status)
		require.Empty(t, done.err)
		require.Contains(t, done.out, "none: the floor applies")
		require.Contains(t, done.out, "  floor  1000, 1970-01-01T00:00:00.01Z, ")

		done = m.run("show", "--json", "account/42")
		require.Equal(t, 1, done.status)
		object := objects(t, done.out)[0]
		require.Nil(t, object["mark"])
		require.Equal(t, "1000", object["floor"])
		require.Equal(t, m.pool == nil, object["sessions"] == nil)
	})
	t.Run("refuses what cannot be a resource", func(t *testing.T) {
		t.Parallel()
		m := newMarked(t)
		for name, rule := range map[string]string{"": "must not be empty", strings.Repeat("x", 300): "must be at most 200 bytes", "a\nb": "must not contain control characters"} {
			for _, args := range [][]string{{"show", name}, {"reset", name}} {
				done := m.run(args...)
				require.Equal(t, 2, done.status, rule)
				require.Contains(t, done.err, rule)
			}
		}
	})
	t.Run("warns of a mark above the clock", func(t *testing.T) {
		t.Parallel()
		m := newMarked(t)
		m.admit("account/42", poison, "forged")
		require.Contains(t, m.run("show", "account/42").out, "above the server's clock: if no clock is wrong, a forged token has raised it")
	})
}

func TestMarksShowsSessionsThatAreAdmittedOrWait(t *testing.T) {
	t.Parallel()
	m := newMarked(t)
	m.admit("account/42", 5, "a")
	begin := func(name string) *pgx.Conn {
		config, err := pgx.ParseConfig(testenv.PostgresURL(t))
		require.NoError(t, err)
		config.RuntimeParams["application_name"] = name
		conn, err := pgx.ConnectConfig(t.Context(), config)
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close(context.WithoutCancel(t.Context())) })
		_, err = conn.Exec(t.Context(), "BEGIN")
		require.NoError(t, err)
		return conn
	}
	admit := func(conn *pgx.Conn, resource string, number int64, holder string) error {
		_, err := conn.Exec(t.Context(), m.sql("SELECT fence.admit($1, $2, $3)"), resource, number, holder)
		return err
	}
	writer, waiter, other := begin("the writer"), begin("the waiter"), begin("the other")
	require.NoError(t, admit(writer, "account/42", 5, "a"))
	require.NoError(t, admit(other, "account/43", 5, "a"))
	waited := make(chan error, 1)
	go func() { waited <- admit(waiter, "account/42", 6, "b") }()

	var done finished
	require.Eventually(t, func() bool {
		done = m.run("show", "account/42")
		return strings.Contains(done.out, "waits")
	}, eventually, time.Millisecond)
	require.Zero(t, done.status, done.err)
	require.Regexp(t, fmt.Sprintf(`(?m)^  %d +writes +\S+ +the writer +idle in transaction +[0-9.smh]+$`, writer.PgConn().PID()), done.out)
	require.Regexp(t, fmt.Sprintf(`(?m)^  %d +waits +\S+ +the waiter +active +[0-9.smh]+$`, waiter.PgConn().PID()), done.out)
	require.NotContains(t, done.out, "the other")

	sessions := objects(t, m.run("show", "--json", "account/42").out)[0]["sessions"].([]any)
	require.Len(t, sessions, 2)
	first, second := sessions[0].(map[string]any), sessions[1].(map[string]any)
	require.Equal(t, "shared", first["mode"])
	require.Equal(t, true, first["granted"])
	require.Equal(t, "the writer", first["application_name"])
	require.Equal(t, "exclusive", second["mode"])
	require.Equal(t, false, second["granted"])

	_, err := writer.Exec(t.Context(), "COMMIT")
	require.NoError(t, err)
	require.NoError(t, <-waited)
	require.Regexp(t, `(?m)^  \d+ +raises the mark +\S+ +the waiter `, m.run("show", "account/42").out)
}

// A prepared transaction keeps its locks without a process, also across a restart.
func TestMarksShowsAPreparedTransaction(t *testing.T) {
	t.Parallel()
	server := testenv.OwnPostgres(t, "max_prepared_transactions=1")
	flags := []string{"--postgres", server.URL()}
	require.Zero(t, execute(t, append([]string{"migrate", "up"}, flags...)...).status)
	conn, err := pgx.Connect(t.Context(), server.URL())
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	for _, text := range []string{"BEGIN", "SELECT fencepost.admit('account/42', 5, 'a')", "PREPARE TRANSACTION 'orphan'"} {
		_, err := conn.Exec(t.Context(), text)
		require.NoError(t, err)
	}
	done := execute(t, append([]string{"marks", "show", "account/42"}, flags...)...)
	require.Equal(t, 1, done.status, "its mark is not committed: %s", done.err)
	require.Regexp(t, `(?m)^  0 +raises the mark +prepared *$`, done.out)
}
