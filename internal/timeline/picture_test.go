package timeline_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/internal/timeline"
	"github.com/fencepost/fencepost/token"
)

// line is a row of a picture, as a reader finds it in the text or on the page.
type line struct {
	time  string
	lanes []string // the signs of the lanes
	mark  string
	words string
}

var (
	tableRow  = regexp.MustCompile(`(?m)^<tr class="[a-z ]*">(.*)</tr>$`)
	tableCell = regexp.MustCompile(`<td[^>]*>(.*?)</td>`)
	tag       = regexp.MustCompile(`<[^>]*>`)
)

// drawn returns the page with one chart.
func drawn(t *testing.T, charts ...timeline.Chart) string {
	t.Helper()
	table := [][]any{
		{"way", "before it writes", "stale writes", "accepted", "refused", "updates lost"},
		{"unguarded", "has the lock", 10_000, 10_000, 0, 10_000},
		{"check-then-write", "compares with the mark", 10_000, 10_000, 0, 10_000},
	}
	return write(t, timeline.Page{Title: "A page", Lead: "What it is.", Table: table, Command: "fencepost simulate", Charts: charts})
}

func write(t *testing.T, p timeline.Page) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, timeline.Write(&out, p))
	require.Less(t, out.Len(), 100_000)
	return out.String()
}

// onPage reads the rows of a page with one chart.
func onPage(t *testing.T, page string) (rows []line) {
	t.Helper()
	for _, row := range tableRow.FindAllStringSubmatch(page, -1) {
		var cells []string
		for _, cell := range tableCell.FindAllStringSubmatch(row[1], -1) {
			cells = append(cells, html.UnescapeString(tag.ReplaceAllString(cell[1], "")))
		}
		n := len(cells)
		rows = append(rows, line{cells[0], cells[1 : n-2], cells[n-2], cells[n-1]})
	}
	require.Len(t, rows, strings.Count(page, "<tr class"), "every row is read")
	return rows
}

// inText reads n rows of the text, in which each lane is two characters wide.
func inText(c timeline.Chart, lanes, n int) (rows []line) {
	lines := c.Lines()
	head := []rune(lines[0].Text)
	first := strings.Index(lines[0].Text, "ms") + 4
	mark := first + 3*lanes
	words := slices.Index(head[mark+4:], 'a') + mark + 4 // the resource begins with it
	for _, l := range lines[1 : n+1] {
		text := []rune(l.Text)
		row := line{time: strings.TrimSpace(string(text[:first])), mark: strings.Trim(string(text[mark:words]), " │"), words: string(text[words:])}
		for i := range lanes {
			sign := strings.TrimSpace(string(text[first+3*i+1]))
			row.lanes = append(row.lanes, sign)
		}
		rows = append(rows, row)
	}
	return rows
}

func sentences(rows []line) (all []string) {
	for _, r := range rows {
		all = append(all, r.words)
	}
	return all
}

// levels returns the mark after each accepted op by a slow method: it compares each op with
// all others.
func levels(ops []history.Op) (numbers []int64, falls int) {
	accepted := slices.DeleteFunc(slices.Clone(ops), func(op history.Op) bool {
		return op.Outcome != history.Accepted || op.Kind != history.Claim && op.Kind != history.Write
	})
	slices.SortStableFunc(accepted, func(a, b history.Op) int { return int(a.Ended - b.Ended) })
	level := int64(0)
	for _, op := range accepted {
		stale := slices.ContainsFunc(accepted, func(other history.Op) bool {
			return other.Number > op.Number && other.Ended < op.Began
		})
		switch {
		case op.Number > level:
			numbers = append(numbers, op.Number)
		case op.Number < level && stale:
			numbers = append(numbers, -op.Number)
			falls++
		default:
			continue
		}
		level = op.Number
	}
	return numbers, falls
}

// overlap makes some writes so long that they overlap with later ones.
func overlap(ops []history.Op, n int) {
	for i := n % 3; i+4 < len(ops); i += 5 {
		if ops[i].Kind == history.Write {
			ops[i].Ended = ops[i+3].Ended + 1
		}
	}
}

// short is the text of a number of a world.
func short(number int64) string {
	if number < 0 {
		return "↓" + short(-number)
	}
	return fmt.Sprintf("#…%04d", number%10_000)
}

// Each request has a row at its end, with its outcome, in the order of time, and the mark
// after it.
func TestEachEventHasARow(t *testing.T) {
	t.Parallel()
	fell, broken := 0, 0
	for seed := range uint64(60) {
		c := unguarded(t, seed)
		if seed%2 == 0 {
			c = guarded(t, seed)
		}
		overlap(c.History.Ops, int(seed))
		rows := onPage(t, drawn(t, c))
		var marks, wanted []string
		for _, r := range rows {
			if strings.Contains(r.mark, "#") {
				marks = append(marks, r.mark)
			}
		}
		numbers, falls := levels(c.History.Ops)
		for _, number := range numbers {
			wanted = append(wanted, short(number))
		}
		require.Equal(t, wanted, marks, seed)
		fell += falls
		left := sentences(rows)
		for _, op := range c.History.Ops {
			if op.Kind == history.Write || op.Kind == history.Claim {
				want := fmt.Sprintf("%s %ss with %s: %s", op.Writer, op.Kind, short(op.Number), op.Outcome)
				at := slices.IndexFunc(left, func(words string) bool { return strings.HasPrefix(words, want) })
				require.GreaterOrEqual(t, at, 0, "%d: %s in %q", seed, want, left)
				left = slices.Delete(left, at, at+1)
			}
		}
		broken += len(c.Violations)
	}
	require.NotZero(t, fell)
	require.NotZero(t, broken)
}

func TestTheTextAndThePageSayTheSame(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		w := newWorld(seed, false)
		w.name = func(i int) string { return string(rune('A' + i)) }
		c := chart(t, w.turns(3, 9))
		rows := onPage(t, drawn(t, c))
		text := inText(c, len(rows[0].lanes), len(rows))
		for i, r := range rows {
			for lane, sign := range r.lanes { // the text shows the state of a lane instead of nothing
				if sign == "" {
					require.Contains(t, []string{"", "z", "┊"}, text[i].lanes[lane])
					text[i].lanes[lane] = ""
				}
			}
			require.Equal(t, r, text[i], seed)
		}
		page := html.UnescapeString(drawn(t, c))
		lines := c.Lines()
		require.Contains(t, page, lines[len(lines)-1].Text)
		require.Contains(t, page, lines[len(lines)-3].Text, "a note")
	}
}

// The legend explains the signs that the pictures have, and no others.
func TestTheLegendHasTheSignsOfThePictures(t *testing.T) {
	t.Parallel()
	write := func(outcome history.Outcome) timeline.Chart {
		return timeline.Chart{History: history.History{Ops: []history.Op{ms(history.Write, outcome, 7, 1, 1, 0)}}}
	}
	texts := map[history.Outcome]string{
		history.Accepted: "✓ accepted", history.Refused: "✗ refused", history.Unknown: "? unknown: no answer", history.Failed: "! failed",
	}
	for outcome, text := range texts {
		lines := write(outcome).Lines()
		require.Equal(t, text, lines[len(lines)-2].Text)
		require.Contains(t, drawn(t, write(outcome)), `<p class="key"><span>`+text+`</span> <br>`)
	}
	require.Contains(t, drawn(t, write(history.Unknown), write(history.Accepted)), "<span>✓ accepted</span> <span>? unknown: no answer</span> <br>")
	c := recorded(t, "unguarded")
	all := c.Lines()
	require.Equal(t, "┃ has a lease  z paused  ┊ waits  • event  ✓ accepted  ✗ refused  ◆ observed  ↓ mark fell", all[len(all)-2].Text)
	require.Contains(t, drawn(t, c), `<p class="key"><span><i class=" held"></i> has a lease</span> <span><i class=" paused"></i> paused</span> <span><i class=" waiting"></i> waits</span> <span>• event</span> `)
}

func TestANameOfAResourceIsShownInFull(t *testing.T) {
	t.Parallel()
	op := ms(history.Write, history.Accepted, 7, 1, 1, 0)
	op.Resource = strings.Repeat("resource/", 22) + "42"
	require.Len(t, op.Resource, token.MaxNameBytes)
	c := timeline.Chart{History: history.History{Ops: []history.Op{op}}}
	require.Contains(t, drawn(t, c), `<th scope="col">`+op.Resource+"</th>")
	require.Contains(t, c.Lines()[0].Text, op.Resource)
}

// ms is an op of A, or of B for the number 8, in milliseconds.
func ms(kind history.Kind, outcome history.Outcome, number int64, began, ended, until int) history.Op {
	op := history.Op{Kind: kind, Outcome: outcome, Writer: "A", Resource: resource, Number: number, Holder: fmt.Sprint("holder ", number)}
	op.Began, op.Ended, op.Until = time.Duration(began)*time.Millisecond, time.Duration(ended)*time.Millisecond, time.Duration(until)*time.Millisecond
	if number == 8 {
		op.Writer = "B"
	}
	return op
}

func lines(ops ...history.Op) (all []string) {
	text := timeline.Chart{History: history.History{Ops: ops}}.Lines()
	for _, l := range text[:len(text)-2] {
		all = append(all, strings.TrimSpace(l.Text))
	}
	return all
}

// The whole picture at once: a wait, a lease that ends, a pause, a stale write.
func TestAPauseAsText(t *testing.T) {
	t.Parallel()
	fault := ms(history.Fault, history.Accepted, 0, 20, 90, 0)
	fault.Note = "stopped"
	require.Equal(t, []string{
		"ms  A  B  mark  account/42",
		"0.000  ┃✓          A gets the lock with #7",
		"20.000  ┃z          A: stopped",
		"25.000  ┃z  •       B asks for the lock, which A has",
		"50.000   z  ┊       A's lease is over",
		"60.000   z ┃✓       B gets the lock with #8",
		"70.000   z ┃✓ #8    B writes with #8: accepted",
		"75.000   z  ✓ │     B gives the lock back",
		"90.000   •    │     A resumes",
		"95.000   ✗    │     A writes with #7: refused, below the mark",
	}, lines(
		ms(history.Acquire, history.Accepted, 7, 0, 0, 50), fault, ms(history.Acquire, history.Accepted, 8, 25, 60, 200),
		ms(history.Write, history.Accepted, 8, 62, 70, 0), ms(history.Release, history.Accepted, 8, 71, 75, 0), ms(history.Write, history.Refused, 7, 91, 95, 0),
	))
}

// Requests that overlap, units of work and what was seen, from ops in any order.
func TestRequestsAsText(t *testing.T) {
	t.Parallel()
	unit, write := ms(history.Unit, history.Accepted, 7, 10, 30, 0), ms(history.Write, history.Accepted, 7, 12, 30, 0)
	write.Seen, write.Made, write.Traced, write.Counted, unit.Counted = 1, 2, true, 1, 1
	twice := ms(history.Write, history.Unknown, 8, 31, 40, 0)
	twice.Traced, twice.Counted, twice.Seen = true, 2, 2
	lost := ms(history.Unit, history.Unknown, 7, 41, 50, 0)
	judge := ms(history.Read, history.Accepted, 0, 55, 60, 0)
	judge.Writer, judge.Counted = "judge", 3
	mark := ms(history.Mark, history.Accepted, 8, 60, 60, 0)
	mark.Writer = "judge"
	require.Equal(t, []string{
		"ms  A  B  mark  account/42",
		"0.000   •          A writes with #7: sent",
		"8.000   ┊  ✓ #8    B claims with #8: accepted",
		"18.000   ✓    │     A writes with #7: accepted, sent before the mark rose, read version 1, made version 2",
		"28.000      ? │     B writes with #8: unknown, read version 2, counted 2",
		"38.000   ?    │     A does a unit of work with #7: unknown",
		"48.000        ◆     judge: reads, counted 3",
		"48.000        ◆     judge: reads the mark: #8",
	}, lines(mark, judge, lost, twice, write, unit, ms(history.Claim, history.Accepted, 8, 13, 20, 0)))
	require.Equal(t, []string{
		"ms  A  mark  account/42",
		"0.000  ┃✓       A gets the lock with #7",
		"0.000  ┃✓ #7    A claims with #7: accepted",
		"3.000  ┃? │     A gives the lock back",
		"5.000  ┃✓ │     A renews the lease",
	}, lines(ms(history.Renew, history.Accepted, 7, 5, 6, 50), ms(history.Release, history.Unknown, 7, 2, 4, 0),
		ms(history.Claim, history.Accepted, 7, 1, 1, 0), ms(history.Acquire, history.Accepted, 7, 0, 1, 5)), "the release was not applied")
}

// Each kind with each outcome has a sign and a word, so that nothing depends on a colour.
func TestOutcomesHaveSignsAndWords(t *testing.T) {
	t.Parallel()
	signs := map[history.Outcome]string{history.Accepted: "✓", history.Refused: "✗", history.Unknown: "?", history.Failed: "!"}
	for _, kind := range []history.Kind{
		history.Acquire, history.Renew, history.Release, history.Claim, history.Write, history.Unit, history.Read, history.Mark, history.Fault,
	} {
		for outcome, sign := range signs {
			op := ms(kind, outcome, 7, 1, 1, 0)
			rows := onPage(t, drawn(t, timeline.Chart{History: history.History{Ops: []history.Op{op}}}))
			require.Len(t, rows, 1)
			switch kind {
			case history.Fault:
				require.Equal(t, line{"0.000", []string{"•"}, "", "A: paused"}, rows[0])
			case history.Read, history.Mark:
				require.Empty(t, rows[0].lanes, "an observer has no lane")
			case history.Claim, history.Write, history.Unit:
				require.Equal(t, sign, rows[0].lanes[0])
				require.Contains(t, rows[0].words, "with #7: "+string(outcome))
			default:
				require.Equal(t, sign, rows[0].lanes[0])
			}
		}
	}
}

func TestALeaseIsDrawnForAsLongAsItIsHeld(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		then  history.Op
		wrote bool // the lease is drawn at the write at 40 ms
		over  bool // a row says that it is over
	}{
		"until it expires":             {ms(history.Claim, history.Accepted, 7, 20, 30, 0), true, true},
		"longer if it is renewed":      {ms(history.Renew, history.Accepted, 7, 20, 30, 70), true, true},
		"until it is released":         {ms(history.Release, history.Accepted, 7, 20, 30, 0), false, false},
		"until a release is lost":      {ms(history.Release, history.Unknown, 7, 20, 30, 0), false, false},
		"until a renewal is refused":   {ms(history.Renew, history.Refused, 7, 20, 30, 0), false, false},
		"beyond the end of the chart":  {ms(history.Renew, history.Accepted, 7, 20, 30, 500), true, false},
		"unchanged, without an answer": {ms(history.Renew, history.Unknown, 7, 20, 30, 0), true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := lines(ms(history.Acquire, history.Accepted, 7, 0, 10, 50), c.then, ms(history.Write, history.Accepted, 7, 39, 40, 0), ms(history.Write, history.Accepted, 7, 98, 99, 0))
			require.Contains(t, all[1], "┃✓")
			at := slices.IndexFunc(all, func(l string) bool { return strings.HasPrefix(l, "20.000") })
			require.Equal(t, c.wrote, strings.Contains(all[at+1], "┃✓"), all)
			require.Equal(t, c.over, strings.Contains(strings.Join(all, "\n"), "A's lease is over"), all)
		})
	}
}

// Overlapping ops may have come in either order. The picture shows the order that breaks no
// rule.
func TestOverlappingOpsAreNoFall(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		began, ended int
		words        string
	}{
		"around it":        {0, 9, "accepted, sent before the mark rose"},
		"begun within it":  {3, 9, "accepted, sent before the mark rose"},
		"begun as it ends": {4, 9, "accepted, sent before the mark rose"},
		"after it":         {5, 9, "accepted, below the mark"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := lines(ms(history.Write, history.Accepted, 8, 2, 4, 0), ms(history.Write, history.Accepted, 7, c.began, c.ended, 0))
			require.Contains(t, all[len(all)-1], "A writes with #7: "+c.words)
			require.Equal(t, name == "after it", strings.Contains(all[len(all)-1], "↓#7"))
		})
	}
}

func TestAViolationIsAtItsInstant(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		c := unguarded(t, seed)
		if len(c.Violations) == 0 {
			continue
		}
		page := drawn(t, c)
		rows := onPage(t, page)
		v := c.Violations[0]
		at := slices.IndexFunc(rows, func(r line) bool { return strings.HasPrefix(r.words, "Broken: "+v.Rule.ID+". ") })
		require.Positive(t, at)
		require.Contains(t, rows[at].words, " Expected: ")
		require.Equal(t, rows[at-1].time, rows[at].time)
		if v.Rule.ID == "order" {
			require.Contains(t, rows[at-1].words, "accepted, below the mark")
		}
		require.Equal(t, len(v.Ops), strings.Count(page, `<tr class="bad">`))
	}
	c := unguarded(t, 2)
	c.Violations = slices.Repeat(c.Violations[:1], 6)
	page := drawn(t, c)
	require.Equal(t, 4, strings.Count(page, `<tr class="bad breaks">`))
	require.Contains(t, page, "Violations that are not shown: 2.")
	c.Violations = c.Violations[:3]
	c.Violations[1].Resource = "another"
	c.Violations[2].Ops = []history.Op{ms(history.Write, history.Accepted, 7, 1, 100_000, 0)} // after the end of the chart
	require.Contains(t, drawn(t, c), "Violations that are not shown: 2.")
	c.Violations[0].Expected = ""
	require.Contains(t, drawn(t, c), "Expected: "+c.Violations[0].Rule.Words, "the rule, if nothing else is known")
}

func TestALongHistoryIsCutAroundTheViolation(t *testing.T) {
	t.Parallel()
	w := newWorld(9, true)
	w.turns(9, 300)
	before := w.ops[len(w.ops)-1]
	w.guarded = false
	w.do(history.Op{Writer: "worker-0", Resource: resource, Number: 179519105560000, Holder: "late"}, history.Write, history.Accepted)
	w.turns(9, 300)
	c := chart(t, history.History{Ops: w.ops})
	require.Equal(t, "order", c.Violations[0].Rule.ID)
	page := drawn(t, c)
	require.Equal(t, len(c.Violations[0].Ops), strings.Count(page, `<tr class="bad">`))
	rows := onPage(t, page)
	require.Len(t, rows[0].lanes, 6, "of nine writers")
	require.Contains(t, sentences(rows), before.Writer+" gives the lock back", "the op right before the violation")
	found := regexp.MustCompile(`Ops that are not shown: (\d+)\.`).FindStringSubmatch(page)
	require.Equal(t, fmt.Sprint(len(w.ops)-64), found[1])

	c.Violations[0].Ops = []history.Op{w.ops[50], w.ops[600], w.ops[1200]}
	require.Equal(t, 3, strings.Count(drawn(t, c), `<tr class="bad">`), "however far apart")

	grant, stale := ms(history.Acquire, history.Accepted, 7, 0, 1, 2), ms(history.Write, history.Accepted, 7, 5000, 5001, 0)
	fault := ms(history.Fault, history.Accepted, 0, 3, 4999, 0)
	ops := []history.Op{grant, fault}
	for i := range 1000 {
		ops = append(ops, ms(history.Write, history.Accepted, 8, 4*i+4, 4*i+5, 0))
	}
	c.History.Ops = append(ops, stale)
	c.Violations[0].Ops = []history.Op{ops[1001], stale}
	rows = onPage(t, drawn(t, c))
	require.Equal(t, []string{"A gets the lock with #7", "A's lease is over", "A: paused"}, sentences(rows)[:3], "what led to it")
}

func TestWithoutAViolationTheFirstRefusalIsShown(t *testing.T) {
	t.Parallel()
	ops := make([]history.Op, 500)
	for i := range ops {
		ops[i] = ms(history.Write, history.Accepted, 7, 2*i, 2*i+1, 0)
	}
	ops[300].Outcome = history.Refused
	require.Contains(t, strings.Join(lines(ops...), "\n"), "A writes with #7: refused")
}

func TestOneResourceIsDrawn(t *testing.T) {
	t.Parallel()
	c := unguarded(t, 2)
	other := newWorld(1, true).turns(5, 50)
	for i := range other.Ops {
		other.Ops[i].Resource = "another"
	}
	c.History.Ops = append(other.Ops, c.History.Ops...)
	page := drawn(t, c)
	require.Contains(t, page, fmt.Sprintf("Ops about other resources: %d.", len(other.Ops)))
	require.NotContains(t, page, ">another<")
	c.Violations = nil
	require.Contains(t, drawn(t, c), ">another<", "that of the first op")
}

func TestNamesAreEscaped(t *testing.T) {
	t.Parallel()
	names := []string{
		"<script>alert(1)</script>", `"onload="alert(1)`, strings.Repeat("é\"<", 50), "a\x00b\x1b[31m\u202eevil\xff\\n", "]]>--></style></table>", "' &amp;",
	}
	w := newWorld(3, false)
	w.name = func(i int) string { return names[i] }
	h := w.turns(len(names), 30)
	for i := range h.Ops {
		h.Ops[i].Resource, h.Ops[i].Note = names[2], names[i%len(names)]
	}
	c := chart(t, h)
	c.Title = names[4]
	page := write(t, timeline.Page{Title: names[0], Lead: names[1], Table: [][]any{{names[0]}, {names[4]}}, Command: names[3], Likely: names, Charts: []timeline.Chart{c}})
	for _, found := range tag.FindAllString(page, -1) {
		require.Regexp(t, `^</?(!doctype|html|head|meta|title|style|body|main|h1|h2|p|section|div|span|i|table|thead|tbody|tr|th|td|b|br|pre|code)[ >]`, found)
		require.NotContains(t, found, "alert")
	}
	require.NotContains(t, page, "\x00")
	require.NotContains(t, page, "\u202e")
	require.Contains(t, html.UnescapeString(page), `>é"<é"<é"<é"…é"<é"<é"<é"<<`, "a long name is shortened")
	require.Contains(t, page, `a\x00b\x1b[31m\u202eevil\xff\n`)
}

func TestAPageIsOneFile(t *testing.T) {
	t.Parallel()
	page := drawn(t, unguarded(t, 1), guarded(t, 2))
	require.NotRegexp(t, `(?i)<script|<link|<img|<iframe|@import|@font-face|url\(|\s(src|href)=|://`, page)
	require.Equal(t, page, drawn(t, unguarded(t, 1), guarded(t, 2)), "the same bytes")
	require.Contains(t, page, "<code>fencepost simulate</code>")
	require.Contains(t, drawn(t, timeline.Chart{Title: "Nothing"}), "Nothing happened")
	require.Contains(t, write(t, timeline.Page{}), "<!doctype html>")
	require.Contains(t, strings.Join(lines(), "\n"), "Nothing happened")
}

// A hundred thousand ops of forty writers with long names make a small page, four times too.
func TestStressAPageIsSmall(t *testing.T) {
	t.Parallel()
	w := newWorld(5, false)
	w.name = func(i int) string { return fmt.Sprint(i, strings.Repeat(`<"é`, 50), i) }
	c := chart(t, w.turns(40, 1000))
	op := w.ops[0]
	op.Kind, op.Until, op.Number, op.Note = history.Write, 0, 179519105569999, strings.Repeat(`<"é`, 50)
	for range 100_000 {
		op.Began, op.Ended = w.now+1, w.now+2
		w.now += 3
		c.History.Ops = append(c.History.Ops, op)
	}
	page := drawn(t, c, c, c, c)
	for _, section := range strings.Split(page, "<section>")[1:] {
		require.Contains(t, section, `<tr class="bad">`)
		require.Contains(t, section, `<tr class="bad breaks">`)
	}
}

// recorded reads a history from a Recorder's report: one line for each op.
func recorded(t *testing.T, name string) timeline.Chart {
	t.Helper()
	file, err := os.Open("testdata/" + name + ".json")
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	var h history.History
	for lines := json.NewDecoder(file); lines.More(); {
		var op history.Op
		require.NoError(t, lines.Decode(&op))
		h.Ops = append(h.Ops, op)
	}
	return chart(t, h)
}

// The documentation has a recorded round of `fencepost simulate`, with a shorter name of the
// resource.
func TestThePictureInTheDocumentation(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/testing.md")
	require.NoError(t, err)
	var text strings.Builder
	for _, l := range recorded(t, "guarded").Lines() {
		text.WriteString(l.Text + "\n")
	}
	require.True(t, strings.Contains(string(page), "```\n"+text.String()+"```\n"), "put it there:\n%s", &text)
}
