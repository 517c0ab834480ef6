package main

import (
	"bufio"
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/cli"
)

func TestMarksList(t *testing.T) { onEach(t, testMarksList) }

func testMarksList(t *testing.T, newMarked func(t *testing.T) *marked) {
	m := newMarked(t)
	hour := m.ago(time.Hour)
	m.admit("account/1", hour, "worker 1")
	m.admit("account/2", poison, "forged")
	m.admit("account/%", 5, "größe")
	m.admit("order/1", 6, "worker 2")

	for args, lines := range map[string][]string{ // the beginnings of the lines below the heading
		"--highest": {
			"  account/2  999999999999999  forged    2286-11-20T17:46:39.99Z  9", fmt.Sprintf("  account/1  %d  worker 1  %s  1h", hour, date(hour)),
			"  order/1    6                worker 2  1970-01-01T00:00:00.00Z  2", "  account/%  5                größe     1970-01-01T00:00:00.00Z  2",
			"4 of 4 marks\n",
		},
		"--prefix account/ --limit 2": {"  account/%", "  account/1", "2 of 3 marks that begin with account/\n"},
		"--prefix account/%":          {"  account/%", "1 of 1 marks that begin with account/%\n"}, // a prefix is no pattern
		"--prefix account_":           {"0 of 0 marks that begin with account_\n"},
	} {
		done := m.run(append([]string{"list"}, strings.Fields(args)...)...)
		require.Zero(t, done.status, done.err)
		heading, rest, _ := strings.Cut(done.out, "\n")
		require.Equal(t, []string{"resource", "number", "holder", "time", "age"}, strings.Fields(heading))
		found := slices.Collect(strings.Lines(rest))
		require.Len(t, found, len(lines), done.out)
		for i, line := range lines {
			require.True(t, strings.HasPrefix(found[i], line), "%q\n%s", line, done.out)
		}
	}
	requireFailed(t, m.run("list", "--limit", "0"), 2, "limit: 0: must be above 0")

	// hazard W7: numbers of JSON are strings.
	list := objects(t, m.run("list", "--json").out)
	require.Len(t, list, 4)
	require.Less(t, list[2]["age_seconds"], 0.0)
	delete(list[2], "age_seconds")
	require.Equal(t, map[string]any{"resource": "account/2", "number": "999999999999999", "holder": "forged", "time": "2286-11-20T17:46:39.99999Z"}, list[2])
	require.Empty(t, m.run("list", "--json", "--prefix", "nothing").out)
}

// A line of JSON is printed before the last mark is read, and a reader may stop reading.
func TestStressMarksListOfALargeTable(t *testing.T) { onEach(t, testMarksListOfALargeTable) }

func testMarksListOfALargeTable(t *testing.T, newMarked func(t *testing.T) *marked) {
	m := newMarked(t)
	if m.pool != nil {
		m.exec("INSERT INTO fence.marks SELECT 'account/' || lpad(i::text, 6, '0'), i, 'a' FROM generate_series(1, 50000) i")
	} else {
		m.exec("INSERT INTO fence.marks SELECT CONCAT('account/', LPAD(seq, 6, '0')), seq, 'a' FROM seq_1_to_50000")
	}
	cmd, _ := command(t, m.args("list", "--json", "--limit", "1000000")...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	first, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, first, `"account/000001"`)
	require.NoError(t, out.Close())
	require.Error(t, cmd.Wait())
	require.Equal(t, statusClosedPipe, cmd.ProcessState.ExitCode())
	require.Empty(t, errs.String())
	require.Contains(t, m.run("list", "--prefix", "account/04").out, "100 of 10000 marks that begin with account/04\n")
}

// A writer chooses its holder. The table refuses control characters, but not characters
// that change the direction of the text, or that cannot be seen.
func TestMarksEscapesControlCharacters(t *testing.T) { onEach(t, testMarksEscapesControlCharacters) }

func testMarksEscapesControlCharacters(t *testing.T, newMarked func(t *testing.T) *marked) {
	m := newMarked(t)
	m.admit("account/\u202e42", 5, "red \u2066\U000e0041")
	for _, args := range [][]string{{"list"}, {"list", "--json"}, {"show", "account/\u202e42"}, {"show", "--json", "account/\u202e42"}} {
		done := m.run(args...)
		require.Zero(t, done.status, done.err)
		require.Contains(t, done.out, `account/\u202e42`)
		require.Contains(t, done.out, `red \u2066`)
		for _, raw := range []string{"\u202e", "\u2066", "\U000e0041"} {
			require.NotContains(t, done.out, raw)
		}
	}
	done := m.run("list", "--json")
	require.Equal(t, "red \u2066\U000e0041", objects(t, done.out)[0]["holder"], "JSON gives back what is there")
	require.NotContains(t, m.typing("x\n", "reset", "account/\u202e42").err, "\u202e")
	require.Equal(t, `\x1b[31m\u009b größe 42 \ufeff`, cli.Visible("\x1b[31m\u009b größe 42 \ufeff"))
}
