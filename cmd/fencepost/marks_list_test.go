package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMarksList(t *testing.T) {
	t.Parallel()
	m := newMarked(t)
	hour := m.ago(time.Hour)
	m.admit("account/1", hour, "worker 1")
	m.admit("account/2", poison, "forged")
	m.admit("account/%", 5, "größe")
	m.admit("order/1", 6, "worker 2")

	t.Run("shows the highest number first", func(t *testing.T) {
		t.Parallel()
		done := m.run("list")
		require.Zero(t, done.status, done.err)
		var words [][]string
		for line := range strings.Lines(done.out) {
			words = append(words, strings.Fields(line))
		}
		require.Len(t, words, 6)
		require.Equal(t, []string{"resource", "number", "holder", "time", "age"}, words[0])
		require.Equal(t, []string{"account/2", "999999999999999", "forged", "2286-11-20", "17:46:39.99", "UTC", "ahead"}, words[1][:7])
		require.Equal(t, []string{"account/1", fmt.Sprint(hour), "worker", "1"}, words[2][:4])
		require.Regexp(t, "^1h[0-9]+m", words[2][7]) // other tests may have gone first
		require.Equal(t, "order/1", words[3][0])
		require.Equal(t, []string{"account/%", "5", "größe", "1970-01-01", "00:00:00.00", "UTC"}, words[4][:6])
		require.Equal(t, []string{"4", "of", "4", "marks"}, words[5])
		column := strings.Index(done.out, "number")
		for line := range strings.Lines(done.out) {
			if strings.HasPrefix(line, "  ") {
				require.NotEqual(t, " ", string([]rune(line)[column]), "the columns stand under each other: %s", line)
			}
		}
	})
	t.Run("filters and stops", func(t *testing.T) {
		t.Parallel()
		done := m.run("list", "--prefix", "account/", "--limit", "1", "--oldest")
		require.Zero(t, done.status, done.err)
		require.Contains(t, done.out, "  account/%  5       größe")
		require.Contains(t, done.out, "1 of 3 marks that begin with account/\n")
		require.Contains(t, m.run("list", "--prefix", "account/%").out, "1 of 1 marks", "a prefix is no pattern")
		require.Contains(t, m.run("list", "--prefix", "nothing").out, "0 of 0 marks")
		for _, limit := range []string{"0", "-1", "ten"} {
			done := m.run("list", "--limit", limit)
			require.Equal(t, 2, done.status)
			require.Contains(t, done.err, limit+": must be a whole number above 0 (see fencepost marks list --help)")
		}
	})
	// hazard W7
	t.Run("prints JSON with numbers as strings", func(t *testing.T) {
		t.Parallel()
		done := m.run("list", "--json", "--prefix", "account/2")
		require.Zero(t, done.status, done.err)
		list := objects(t, done.out)
		require.Len(t, list, 1)
		require.Less(t, list[0]["age_seconds"], 0.0)
		delete(list[0], "age_seconds")
		require.Equal(t, map[string]any{"resource": "account/2", "number": "999999999999999", "holder": "forged", "time": "2286-11-20T17:46:39.99999Z"}, list[0])
		require.Empty(t, m.run("list", "--json", "--prefix", "nothing").out)
	})
}

// A holder comes from whoever may write, and may be anything that the table lets
// in: no control characters, but what turns the text around, or cannot be seen.
func TestMarksEscapesWhatATerminalObeys(t *testing.T) {
	t.Parallel()
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
	require.Equal(t, `\x1b[31m\u009b größe 42 \ufeff`, visible("\x1b[31m\u009b größe 42 \ufeff"))
}

func TestSpan(t *testing.T) {
	t.Parallel()
	for d, text := range map[time.Duration]string{
		0: "0.0s", 1234 * time.Millisecond: "1.2s", time.Minute: "1m0s", 47*time.Hour + 1600*time.Millisecond: "47h0m2s",
		48 * time.Hour: "2d", 30*24*time.Hour + time.Hour: "30d", 260 * 365 * 24 * time.Hour: "94900d",
	} {
		require.Equal(t, text, span(d))
	}
}
