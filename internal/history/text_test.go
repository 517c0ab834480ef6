package history_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/internal/test/leaktest"
)

// story reads a history of one resource from lines such as
//
//	A write #1 a 10-12 accepted seen=1 made=2
//
// The words are: writer, kind, token or -, from and to in ms, outcome, and other known
// facts. The TTL is 20 ms, the bound on blocking is 50 ms, and the slack is 0.
func story(t *testing.T, text string) history.History {
	t.Helper()
	h := history.History{TTL: 20 * time.Millisecond, Bound: 50 * time.Millisecond}
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 0 {
			h.Ops = append(h.Ops, read(t, words))
		}
	}
	return h
}

func read(t *testing.T, words []string) history.Op {
	t.Helper()
	op := history.Op{Resource: "account/42", Writer: words[0], Kind: history.Kind(words[1])}
	if words = words[2:]; words[0] == "-" {
		words = words[1:]
	} else {
		op.Number, op.Holder = int64(number(t, words[0][1:])), words[1]
		words = words[2:]
		if op.Holder == "?" {
			op.Holder = ""
		}
	}
	from, to, _ := strings.Cut(words[0], "-")
	op.Began, op.Ended = millis(t, from), millis(t, to)
	op.Outcome = history.Outcome(words[1])
	for _, word := range words[2:] {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "until":
			op.Until = millis(t, value)
		case "counted":
			op.Counted, op.Traced = number(t, value), op.Kind != history.Read
		case "seen":
			op.Seen = int64(number(t, value))
		case "made":
			op.Made = int64(number(t, value))
		case "key":
			op.Key = value
		case "holder":
			op.Holder = value
		default:
			require.Fail(t, "no such word", word)
		}
	}
	return op
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

func millis(t *testing.T, text string) time.Duration {
	t.Helper()
	return time.Duration(number(t, text)) * time.Millisecond
}

func TestMain(m *testing.M) { leaktest.Main(m) }
