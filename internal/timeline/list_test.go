package timeline_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/internal/timeline"
)

// listed is a row of the list: its class, its time and its text.
type listed struct {
	class, text string
	at          float64
}

var (
	listRow = regexp.MustCompile(`(?m)^<li class="([a-z ]+)"><span>([0-9.]+)</span>(.*)$`)
	markup  = regexp.MustCompile(`<[^>]*>`)
	spaces  = regexp.MustCompile(`\s+`)
)

// rowsOf reads the list of the page's only chart.
func rowsOf(t *testing.T, text string) []listed {
	t.Helper()
	_, list, _ := strings.Cut(text, `<ol class="events">`)
	list, _, _ = strings.Cut(list, "</ol>")
	var rows []listed
	for _, found := range listRow.FindAllStringSubmatch(list, -1) {
		at, err := strconv.ParseFloat(found[2], 64)
		require.NoError(t, err)
		plain := strings.TrimSpace(spaces.ReplaceAllString(markup.ReplaceAllString(found[3], " "), " "))
		rows = append(rows, listed{found[1], plain, at})
	}
	require.Len(t, rows, strings.Count(list, "<li"), "every row is read")
	return rows
}

func with(rows []listed, class string) (texts []string) {
	for _, row := range rows {
		if row.class == class {
			texts = append(texts, row.text)
		}
	}
	return texts
}

func TestTheListHasTheEventsOfThePlot(t *testing.T) {
	t.Parallel()
	broken := 0
	for seed := range uint64(60) {
		s := unguarded(t, seed)
		if seed%2 == 0 {
			s = guarded(t, seed)
		}
		rows := rowsOf(t, html(t, onePage(s)))
		require.True(t, slices.IsSortedFunc(rows, func(a, b listed) int { return int(1000*a.at) - int(1000*b.at) }), "sorted by time")
		numbers, falls := levels(s.History.Ops)
		require.Len(t, with(rows, "falls"), falls)
		require.Len(t, with(rows, "rises"), len(numbers)-falls)
		ended := append(with(rows, "op"), with(rows, "op bad")...)
		for _, op := range s.History.Ops {
			if op.Kind == history.Write || op.Kind == history.Claim {
				want := fmt.Sprintf("%s %ss %s %s", op.Writer, op.Kind, timeline.Short(numbers[0], op.Number), op.Outcome)
				at := slices.Index(ended, want)
				require.GreaterOrEqual(t, at, 0, "%d: %s in %q", seed, want, ended)
				ended = slices.Delete(ended, at, at+1)
			}
		}
		broken += requireBroken(t, s, rows)
	}
	require.Greater(t, broken, 10)
}

// requireBroken requires that the violation is where its last op ended, after all ops
// that break the rule, and returns how many there are.
func requireBroken(t *testing.T, s timeline.Chart, rows []listed) int {
	t.Helper()
	at := slices.IndexFunc(rows, func(row listed) bool { return row.class == "breaks" })
	if len(s.Violations) == 0 {
		require.Negative(t, at)
		require.Empty(t, with(rows, "op bad"))
		return 0
	}
	require.Len(t, with(rows, "breaks"), 1)
	v := s.Violations[0]
	require.Contains(t, rows[at].text, "broken: "+v.Rule.ID)
	require.Regexp(t, `expected: worker-\d&#39;s (write|grant) with #…\d+ should (have been refused|not have come before).*\.$`, rows[at].text)
	require.Len(t, with(rows[:at], "op bad"), len(v.Ops))
	before := at - 1
	for strings.HasPrefix(rows[before].class, "falls") {
		before--
	}
	require.Equal(t, "op bad", rows[before].class, "right after the last op")
	require.InDelta(t, rows[before].at, rows[at].at, 0)
	return 1
}

// A fault has a row at its beginning and one at its end, if other ops happened in
// between. If it has no duration it has one row, and so has a write that overlaps no
// other op.
func TestAnInterruptedOpHasTwoRows(t *testing.T) {
	t.Parallel()
	fault, write := at(history.Fault, history.Accepted, 20, 60, 0), at(history.Write, history.Unknown, 70, 80, 0)
	fault.Note = "cut off"
	other := at(history.Write, history.Accepted, 30, 40, 0)
	other.Writer = "B"
	drawn := func(ops ...history.Op) (texts []string) {
		for _, row := range rowsOf(t, html(t, onePage(timeline.Chart{History: history.History{Ops: ops}}))) {
			texts = append(texts, row.text)
		}
		return texts
	}
	require.Equal(t, []string{"A cut off, since 0", "A writes #7 unknown"}, drawn(fault, write))
	require.Equal(t, []string{"A cut off, until 40.00", "B writes #7 accepted", "mark rises to #7", "A cut off, until here", "A writes #7 unknown"},
		drawn(fault, other, write))
	write.Began = other.Began - 1
	fault.Ended = fault.Began
	require.Equal(t, []string{"A cut off", "A writes #7 begins", "B writes #7 accepted", "mark rises to #7", "A writes #7 unknown"},
		drawn(fault, other, write))
}

func TestAnExpiredLeaseHasARow(t *testing.T) {
	t.Parallel()
	granted, last := at(history.Acquire, history.Accepted, 0, 10, 50), at(history.Write, history.Accepted, 80, 90, 0)
	rows := rowsOf(t, html(t, onePage(timeline.Chart{History: history.History{Ops: []history.Op{granted, last}}})))
	require.Equal(t, listed{"over", "A is past its lease #7", 50}, rows[1])
}

func TestLikelyMistakesComeFirst(t *testing.T) {
	t.Parallel()
	p := onePage(unguarded(t, 2))
	require.NotContains(t, html(t, p), "Likely")
	p.Likely = []string{"write over the pool: <so>.", "another."}
	require.Contains(t, html(t, p), "<header><h1>A page</h1>\n<div class=\"likely\">\n"+
		"<p><b>Likely:</b> write over the pool: &lt;so&gt;.</p>\n<p><b>Likely:</b> another.</p>\n</div>\n<p>What it is.</p>")
}

func TestEachViolationIsPrintedWithTheExpectedOutcome(t *testing.T) {
	t.Parallel()
	s := unguarded(t, 2)
	first := s.Violations[0]
	s.Violations = nil
	for i := range 6 {
		v := first
		v.Expected = fmt.Sprintf("should be <%d>.", i)
		s.Violations = append(s.Violations, v)
	}
	text := html(t, onePage(s))
	for i, head := range []string{"Broken", "Broken too", "Broken too", "Broken too"} {
		require.Contains(t, text, fmt.Sprintf("<b>%s: order.</b> ", head))
		require.Contains(t, text, fmt.Sprintf("<br><b>Expected:</b> should be &lt;%d&gt;.</p>", i))
	}
	require.NotContains(t, text, "&lt;4&gt;")
	require.Contains(t, text, "Broken 2 times more.")
}
