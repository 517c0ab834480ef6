package picture_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/picture"
	"github.com/fencepost/fencepost/simulations/history"
)

func TestALongHistoryIsCutOutAroundTheViolation(t *testing.T) {
	t.Parallel()
	w := newWorld(9, true)
	w.turns(9, 300) // correct, as far as the resource goes
	before := len(w.ops)
	w.guarded = false
	stale := history.Op{Writer: "worker-0", Resource: resource, Number: 179519105560000, Holder: "late"}
	w.do(stale, history.Write, history.Accepted)
	w.turns(9, 300)
	s := scene(t, history.History{Ops: w.ops})
	require.Equal(t, "order", s.Violations[0].Rule.ID)
	text := html(t, onePage(s))
	require.Equal(t, len(s.Violations[0].Ops), strings.Count(text, `<tr class="bad">`))
	rows := strings.Count(text, "<tr>") + strings.Count(text, `<tr class="bad">`) - 1
	require.Contains(t, text, fmt.Sprintf("%d more ops are not shown", len(w.ops)-rows))
	require.Less(t, rows, 60)
	next := w.ops[before-1]
	require.Contains(t, text, fmt.Sprintf("<td>%d</td><td>%s</td>", next.Number, next.Holder), "what came right before it")
}

func TestAllOfAViolationIsShownHoweverFarApart(t *testing.T) {
	t.Parallel()
	ops := newWorld(9, true).turns(20, 2000).Ops
	bad := []history.Op{ops[500], ops[3000], ops[6000]}
	rule := history.Rules()[0]
	s := picture.Scene{History: history.History{Ops: ops}, Violations: []history.Violation{{Rule: rule, Resource: resource, Why: "So.", Ops: bad}}}
	text := html(t, onePage(s))
	require.Equal(t, 3, strings.Count(text, `<tr class="bad">`))
	shown := 0
	for _, op := range slices.Concat(ops[490:510], ops[5990:6010]) {
		if op.Number > 0 && strings.Contains(text, op.Holder+"</td>") {
			shown++
		}
	}
	require.Greater(t, shown, 10, "and what is beside the first and the last")
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
	root := svg(t, picture.Scene{History: history.History{Ops: ops}})
	refused := 0
	for said := range told(root) {
		refused += strings.Count(said, "refused")
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
	s := scene(t, w.turns(40, 200))
	require.NotEmpty(t, s.Violations)
	root := svg(t, s)
	require.Len(t, root.class("name"), 8)
	s.History.Ops = s.History.Ops[:100]
	s.Violations = nil
	require.Greater(t, len(svg(t, s).class("name")), 15, "where nothing is left out, nobody is")
}

func TestManyScenesAreShorterEach(t *testing.T) {
	t.Parallel()
	s := picture.Scene{History: newWorld(4, true).turns(4, 300)}
	one := html(t, onePage(s))
	three := html(t, onePage(s, s, s, s))
	require.Less(t, len(three), picture.Largest)
	require.Greater(t, strings.Count(one, "<tr>"), strings.Count(three, "<tr>")/4)
}

func TestAMillionOpsMakeASmallPage(t *testing.T) {
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
	s := picture.Scene{Title: "Long", History: history.History{Ops: w.ops}}
	found := scene(t, history.History{Ops: w.ops[:5000]})
	s.Violations = found.Violations
	began := time.Now()
	text := html(t, onePage(s))
	t.Logf("%d bytes in %v", len(text), time.Since(began))
	require.Less(t, len(text), picture.Largest)
	require.Contains(t, text, `<tr class="bad">`)
}
