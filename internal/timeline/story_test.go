package timeline_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/internal/timeline"
)

// levels returns the mark after each accepted op by a slow method: it compares each op
// with all others.
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
			numbers = append(numbers, op.Number)
			falls++
		default:
			continue
		}
		level = op.Number
	}
	return numbers, falls
}

var climbs = regexp.MustCompile(`H([0-9.]+)V([0-9.]+)`)

// staircase reads the numbers from the picture, by the rows in the gutter.
func staircase(t *testing.T, root node) (numbers []string, falls int) {
	t.Helper()
	rows := map[float64]string{}
	for _, text := range root.class("level") {
		rows[text.number(t, "y")-4] = text.Text
	}
	marks := root.class("mark")
	for _, step := range climbs.FindAllStringSubmatch(marks[0].attr("d"), -1) {
		y, err := strconv.ParseFloat(step[2], 64)
		require.NoError(t, err)
		require.Contains(t, rows, y)
		numbers = append(numbers, rows[y])
	}
	for _, fall := range root.class("fall") {
		falls += len(regexp.MustCompile("M").FindAllString(fall.attr("d"), -1))
	}
	return numbers, falls
}

func TestTheStaircaseIsTheMark(t *testing.T) {
	t.Parallel()
	all := 0
	for seed := range uint64(60) {
		s := unguarded(t, seed)
		if seed%2 == 0 {
			s = guarded(t, seed)
		}
		overlap(s.History.Ops, int(seed))
		s.Violations = nil
		numbers, falls := levels(s.History.Ops)
		var wanted []string
		for _, number := range numbers {
			wanted = append(wanted, timeline.Short(numbers[0], number))
		}
		seen, fell := staircase(t, svg(t, s))
		require.Equal(t, wanted, seen, seed)
		if falls > 0 {
			falls++ // the legend has one too
		}
		require.Equal(t, falls, fell, seed)
		all += falls
	}
	require.NotZero(t, all, "some mark falls")
}

// overlap makes some writes so long that they overlap with later ones.
func overlap(ops []history.Op, n int) {
	for i := n % 3; i+4 < len(ops); i += 5 {
		if ops[i].Kind == history.Write {
			ops[i].Ended = ops[i+3].Ended + 1
		}
	}
}

// Overlapping ops may have come in either order. The picture shows the order that breaks
// no rule.
func TestOverlappingOpsAreNoFall(t *testing.T) {
	t.Parallel()
	write := func(writer string, number int64, began, ended int) history.Op {
		return history.Op{
			Kind: history.Write, Writer: writer, Resource: resource, Outcome: history.Accepted, Number: number, Holder: writer,
			Began: time.Duration(began) * time.Millisecond, Ended: time.Duration(ended) * time.Millisecond,
		}
	}
	for name, c := range map[string]struct {
		small history.Op
		falls int
		after bool // the greater one
	}{
		"around it":        {write("A", 1, 0, 9), 0, false},
		"begun within it":  {write("A", 1, 3, 9), 0, false},
		"begun as it ends": {write("A", 1, 4, 9), 0, true},
		"after it":         {write("A", 1, 5, 9), 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			greater := write("B", 2, 2, 4)
			root := svg(t, timeline.Chart{History: history.History{Ops: []history.Op{greater, c.small}}})
			_, falls := staircase(t, root)
			require.Equal(t, c.falls, falls, "falls in the picture and in the legend")
			x := map[string]float64{}
			for description, groups := range byDescription(root) {
				_, who, _ := strings.Cut(description, ", ")
				x[who[:1]], _ = groups[0].class("glyph")[0].begin(t)
			}
			if !c.after {
				require.InDelta(t, x["B"], x["A"], 0.01, "A's write is drawn just before the greater one")
			} else {
				require.Greater(t, x["A"], x["B"])
			}
		})
	}
}

// at is an op of A, in milliseconds.
func at(kind history.Kind, outcome history.Outcome, began, ended, until int) history.Op {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	op := history.Op{Kind: kind, Writer: "A", Resource: resource, Outcome: outcome, Began: ms(began), Ended: ms(ended), Until: ms(until)}
	if kind != history.Fault {
		op.Number, op.Holder = 7, "A:1"
	}
	return op
}

// axis reads the times from the picture.
func axis(t *testing.T, root node) map[string]float64 {
	t.Helper()
	places := map[string]float64{}
	for _, text := range root.class("time") {
		places[text.Text] = text.number(t, "x")
	}
	return places
}

func TestALeaseIsDrawnForAsLongAsItIsHeld(t *testing.T) {
	t.Parallel()
	granted := at(history.Acquire, history.Accepted, 0, 10, 50)
	last := at(history.Write, history.Accepted, 80, 90, 0)
	for name, c := range map[string]struct {
		then  history.Op
		until string // by the axis
	}{
		"until it expires":                {at(history.Claim, history.Accepted, 20, 30, 0), "50.00"},
		"longer if it is renewed":         {at(history.Renew, history.Accepted, 20, 30, 70), "70.00"},
		"until it is released":            {at(history.Release, history.Accepted, 20, 30, 0), "30.00"},
		"until it may have been released": {at(history.Release, history.Unknown, 20, 30, 0), "20.00"},
		"until a renewal is refused":      {at(history.Renew, history.Refused, 20, 30, 0), "30.00"},
		"beyond the end of the chart":     {at(history.Renew, history.Accepted, 20, 30, 500), ""},
		"unchanged, without an answer":    {at(history.Renew, history.Unknown, 20, 30, 0), "50.00"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := svg(t, timeline.Chart{History: history.History{Ops: []history.Op{granted, c.then, last}}})
			times := axis(t, root)
			lease := root.class("lease")[0]
			from, width := lease.number(t, "x"), lease.number(t, "width")
			require.InDelta(t, times["10.00"], from, 0.11)
			if c.until == "" {
				require.Greater(t, from+width, times["90.00"])
				return
			}
			require.Contains(t, times, c.until)
			require.InDelta(t, times[c.until], from+width, 0.21)
		})
	}
}

var hatched = regexp.MustCompile(`^translate\(([0-9.]+) [0-9.]+\)`)

func TestAFaultIsHatchedFromItsBeginningToItsEnd(t *testing.T) {
	t.Parallel()
	fault := at(history.Fault, history.Accepted, 20, 60, 0)
	fault.Note = "cut off from the lock"
	ops := []history.Op{at(history.Acquire, history.Accepted, 0, 10, 50), fault, at(history.Write, history.Unknown, 80, 90, 0)}
	root := svg(t, timeline.Chart{History: history.History{Ops: ops}})
	times := axis(t, root)
	hatch := root.class("hatch")[0]
	var long float64
	_, err := fmt.Sscanf(hatch.attr("d"), "M0 0h%f", &long)
	require.NoError(t, err)
	x, err := strconv.ParseFloat(hatched.FindStringSubmatch(hatch.attr("transform"))[1], 64)
	require.NoError(t, err)
	slant := x - times["20.00"]
	require.Less(t, slant, 8.0, "the hatch is slanted")
	require.InDelta(t, times["60.00"]-times["20.00"], long+2*slant, 0.5)
	require.Equal(t, "cut off from the lock", root.class("fault")[0].Text)
	fault.Ended = fault.Began
	ops[1] = fault
	root = svg(t, timeline.Chart{History: history.History{Ops: ops}})
	require.Len(t, root.class("shock"), 1, "a fault without a duration")
	require.Len(t, root.class("hatch"), 1, "the legend's")
}

func TestTheTimeOfTheViolationIsRed(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		s := unguarded(t, seed)
		if len(s.Violations) == 0 {
			continue
		}
		root := svg(t, s)
		red := root.all(func(n node) bool { return n.is("time") && n.is("bad") })
		require.Len(t, red, 1)
		line, _ := root.class("broken")[0].begin(t)
		require.InDelta(t, line, red[0].number(t, "x"), 0.01)
	}
}

func TestALongHistoryIsCutOutAroundTheViolation(t *testing.T) {
	t.Parallel()
	w := newWorld(9, true)
	w.turns(9, 300) // correct, as far as the resource shows
	before := len(w.ops)
	w.guarded = false
	stale := history.Op{Writer: "worker-0", Resource: resource, Number: 179519105560000, Holder: "late"}
	w.do(stale, history.Write, history.Accepted)
	w.turns(9, 300)
	s := chart(t, history.History{Ops: w.ops})
	require.Equal(t, "order", s.Violations[0].Rule.ID)
	text := html(t, onePage(s))
	require.Equal(t, len(s.Violations[0].Ops), strings.Count(text, `<tr class="bad">`))
	rows := strings.Count(text, "<tr>") + strings.Count(text, `<tr class="bad">`) - 1
	require.Contains(t, text, fmt.Sprintf("%d more ops are not shown", len(w.ops)-rows))
	require.Less(t, rows, 60)
	next := w.ops[before-1]
	require.Contains(t, text, fmt.Sprintf("<td>%d</td><td>%s</td>", next.Number, next.Holder), "the op right before the violation")
}

func TestAllOfAViolationIsShownHoweverFarApart(t *testing.T) {
	t.Parallel()
	ops := newWorld(9, true).turns(20, 2000).Ops
	bad := []history.Op{ops[500], ops[3000], ops[6000]}
	rule := history.Rules()[0]
	s := timeline.Chart{History: history.History{Ops: ops}, Violations: []history.Violation{{Rule: rule, Resource: resource, Why: "So.", Ops: bad}}}
	text := html(t, onePage(s))
	require.Equal(t, 3, strings.Count(text, `<tr class="bad">`))
	shown := 0
	for _, op := range slices.Concat(ops[490:510], ops[5990:6010]) {
		if op.Number > 0 && strings.Contains(text, op.Holder+"</td>") {
			shown++
		}
	}
	require.Greater(t, shown, 10, "ops beside the first and the last")
}

func TestWithoutAViolationTheFirstRefusalIsShown(t *testing.T) {
	t.Parallel()
	w := newWorld(9, true)
	var ops []history.Op
	for i := range 500 {
		op := history.Op{Writer: "A", Resource: resource, Number: 7, Holder: "A:1"}
		outcome := history.Accepted
		if i == 300 {
			outcome = history.Refused
		}
		w.do(op, history.Write, outcome)
	}
	ops = w.ops
	root := svg(t, timeline.Chart{History: history.History{Ops: ops}})
	refused := 0
	for description := range byDescription(root) {
		refused += strings.Count(description, "refused")
	}
	require.Equal(t, 1, refused)
}

func TestOneResourceIsDrawn(t *testing.T) {
	t.Parallel()
	s := unguarded(t, 2)
	other := newWorld(1, true).turns(5, 50)
	for i := range other.Ops {
		other.Ops[i].Resource = "another"
	}
	s.History.Ops = append(s.History.Ops, other.Ops...)
	text := html(t, onePage(s))
	require.Contains(t, text, fmt.Sprintf("%d more are about other resources", len(other.Ops)))
	require.NotContains(t, text, ">another<")
	s.Violations = nil
	require.Contains(t, html(t, onePage(s)), ">another<", "the one with the most ops")
}

func TestACuttingHasNotTooManyWriters(t *testing.T) {
	t.Parallel()
	w := newWorld(4, false)
	s := chart(t, w.turns(40, 200))
	require.NotEmpty(t, s.Violations)
	root := svg(t, s)
	require.Len(t, root.class("name"), 8)
	s.History.Ops = s.History.Ops[:100]
	s.Violations = nil
	require.Greater(t, len(svg(t, s).class("name")), 15, "if nothing is left out, no name is")
}

func TestManyChartsAreShorterEach(t *testing.T) {
	t.Parallel()
	s := timeline.Chart{History: newWorld(4, true).turns(4, 300)}
	one := html(t, onePage(s))
	three := html(t, onePage(s, s, s, s))
	require.Less(t, len(three), timeline.Largest)
	require.Greater(t, strings.Count(one, "<tr>"), strings.Count(three, "<tr>")/4)
}

func TestStressAMillionOpsMakeASmallPage(t *testing.T) {
	t.Parallel()
	w := newWorld(5, false)
	long := strings.Repeat(`<"é`, 50)
	w.name = func(i int) string { return fmt.Sprint(i, long, i) }
	w.ops = make([]history.Op, 0, 1_000_000)
	w.turns(40, 1000)
	op := w.ops[0]
	for len(w.ops) < cap(w.ops) {
		op.Kind, op.Outcome, op.Until = history.Write, history.Accepted, 0
		op.Number = 179519105569999
		op.Began = w.now + 1
		op.Ended = w.now + 2
		w.now += 3
		w.ops = append(w.ops, op)
	}
	s := timeline.Chart{Title: "Long", History: history.History{Ops: w.ops}}
	found := chart(t, history.History{Ops: w.ops[:5000]})
	s.Violations = found.Violations
	began := time.Now()
	text := html(t, onePage(s))
	t.Logf("%d bytes in %v", len(text), time.Since(began))
	require.Less(t, len(text), timeline.Largest)
	require.Contains(t, text, `<tr class="bad">`)
}
