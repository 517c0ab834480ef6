package timeline_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/internal/timeline"
)

// drawn returns the outcome that a node's shape stands for.
func drawn(n node) history.Outcome {
	crosses := n.class("cross")
	switch {
	case len(n.class("full")) == 1:
		return history.Accepted
	case len(crosses) == 1 && strings.Contains(crosses[0].attr("d"), "m0-7"):
		return history.Refused
	case len(crosses) == 1:
		return history.Failed
	}
	return history.Unknown
}

// byDescription returns the groups of ops by their descriptions.
func byDescription(root node) map[string][]node {
	groups := map[string][]node{}
	for _, g := range root.all(func(n node) bool {
		return n.XMLName.Local == "g" && len(n.Nodes) > 1 && n.Nodes[0].XMLName.Local != "text"
	}) {
		if last := g.Nodes[len(g.Nodes)-1]; last.XMLName.Local == "title" {
			groups[last.Text] = append(groups[last.Text], g)
		}
	}
	return groups
}

func TestEveryWriteIsInThePictureWithItsOutcome(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		s := guarded(t, seed)
		s.History.Ops[3].Outcome = history.Failed
		if seed%2 == 0 {
			s = unguarded(t, seed)
		}
		groups := byDescription(svg(t, s))
		wanted := 0
		for _, op := range s.History.Ops {
			if op.Kind != history.Write && op.Kind != history.Claim {
				continue
			}
			wanted++
			text := fmt.Sprintf("%s: %s %s, #%d", op.Writer, op.Kind, op.Outcome, op.Number)
			found := 0
			for description, all := range groups {
				if strings.Contains(description, text) {
					for _, g := range all {
						require.Equal(t, op.Outcome, drawn(g), description)
						require.Len(t, g.class("glyph"), 1, description)
						require.Len(t, g.class("request"), 1, description)
						found++
					}
				}
			}
			require.NotZero(t, found, text)
		}
		root := svg(t, s)
		require.Len(t, root.class("request"), wanted, "each once")
	}
}

// A unit that was refused before it wrote has no write to show.
func TestAUnitWithoutWritesIsDrawnAsOne(t *testing.T) {
	t.Parallel()
	op := history.Op{Kind: history.Unit, Writer: "A", Resource: resource, Outcome: history.Refused, Number: 7, Holder: "A:1", Ended: time.Millisecond}
	root := svg(t, chart(t, history.History{Ops: []history.Op{op}}))
	require.Len(t, root.class("request"), 1)
	inside := op
	inside.Kind, inside.Outcome, op.Outcome = history.Write, history.Accepted, history.Accepted
	root = svg(t, chart(t, history.History{Ops: []history.Op{op, inside}}))
	require.Len(t, root.class("request"), 1, "the unit's request")
	require.Len(t, root.class("unit"), 2, "a line for the unit, here and in the legend")
}

func TestEachOutcomeHasAShapeOfItsOwn(t *testing.T) {
	t.Parallel()
	for _, outcome := range []history.Outcome{history.Accepted, history.Refused, history.Unknown, history.Failed} {
		op := history.Op{Kind: history.Write, Writer: "A", Resource: resource, Outcome: outcome, Number: 7, Holder: "A:1"}
		root := svg(t, chart(t, history.History{Ops: []history.Op{op}}))
		for _, groups := range byDescription(root) {
			require.Equal(t, outcome, drawn(groups[0]))
		}
	}
}

// Texts on one line must not overlap, if each character takes half of the text's size.
func TestLabelsDoNotOverlap(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		s := unguarded(t, seed)
		if seed%2 == 0 {
			s = guarded(t, seed)
		}
		s.Small = seed%3 == 0
		lines := map[float64][]node{}
		root := svg(t, s)
		for _, class := range []string{"word", "token", "fault"} {
			for _, text := range root.class(class) {
				y := text.number(t, "y")
				lines[y] = append(lines[y], text)
			}
		}
		for _, line := range lines {
			slices.SortFunc(line, func(a, b node) int { return cmp.Compare(a.number(t, "x"), b.number(t, "x")) })
			for i := range line[1:] {
				end := line[i].number(t, "x") + 5.5*float64(len([]rune(line[i].Text)))
				require.Less(t, end, line[i+1].number(t, "x"), "%d: %q, %q", seed, line[i].Text, line[i+1].Text)
			}
		}
	}
}

// A token is inside its lease, and does not cover another mark.
func TestATokenFitsIntoItsLease(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		root := svg(t, guarded(t, seed))
		for _, token := range root.class("token") {
			from := token.number(t, "x")
			to := from + 6*float64(len([]rune(token.Text)))
			inside := false
			for _, lease := range root.class("lease") {
				x := lease.number(t, "x")
				inside = inside || x <= from && to <= x+lease.number(t, "width")
			}
			require.True(t, inside, "%d: %s", seed, token.Text)
			for _, dot := range root.class("dot") {
				on := dot.number(t, "cy") == token.number(t, "y")-4
				require.False(t, on && dot.number(t, "cx") > from && dot.number(t, "cx") < to, "%d: %s", seed, token.Text)
			}
		}
	}
}

func TestTheMostImportantLabelIsWrittenLast(t *testing.T) {
	t.Parallel()
	s := unguarded(t, 2)
	require.NotEmpty(t, s.Violations)
	s.Small = true
	root := svg(t, s)
	bad := root.all(func(n node) bool { return n.is("word") && n.is("bad") })
	require.Len(t, bad, len(s.Violations[0].Ops))
	require.Less(t, len(root.class("word")), len(svg(t, unguarded(t, 2)).class("word")))
}

func TestTheRedLineIsAtTheEndOfTheViolation(t *testing.T) {
	t.Parallel()
	broken := 0
	for seed := range uint64(40) {
		s := unguarded(t, seed)
		if len(s.Violations) == 0 {
			require.Empty(t, svg(t, s).class("broken"))
			continue
		}
		broken++
		root := svg(t, s)
		require.Len(t, root.class("broken"), 1)
		line, _ := root.class("broken")[0].begin(t)
		ops := s.Violations[0].Ops
		last := ops[len(ops)-1]
		ended := fmt.Sprintf("#%d, until ", last.Number)
		found := false
		for description, groups := range byDescription(root) {
			if rings := groups[0].class("ring"); len(rings) > 0 && strings.Contains(description, ended) {
				require.InDelta(t, line, rings[0].number(t, "cx"), 0.01)
				found = true
			}
		}
		require.True(t, found, "the last op is ringed")
		require.Len(t, root.class("ring"), len(ops), "all ops that break the rule are ringed")
		require.Equal(t, "broken: "+s.Violations[0].Rule.ID, root.class("rule")[0].Text)
		var words []string
		for _, why := range root.class("why") {
			words = append(words, why.Text)
		}
		why, _, _ := strings.Cut(s.Violations[0].Why, "#")
		require.Contains(t, strings.Join(words, " "), why)
	}
	require.Greater(t, broken, 10)
}

func TestNumbersAreShortenedToWhereTheyDiffer(t *testing.T) {
	t.Parallel()
	require.Equal(t, "#41", timeline.Short(42, 41))
	require.Equal(t, "#…2715", timeline.Short(179519105562874, 179519105562715))
	require.Equal(t, "#…05562715", timeline.Short(179519115562874, 179519105562715), "all digits that differ")
	require.Equal(t, "#179519105562715", timeline.Short(99, 179519105562715), "numbers of other lengths")
	require.Equal(t, "#17951910556", timeline.Short(179519105562715, 17951910556), "numbers of other lengths that begin alike")
	require.Equal(t, "#…2715", timeline.Short(179519105562715, 179519105562715))
	require.Equal(t, "#999999999999999", timeline.Short(100000000000000, 999999999999999))
	require.Equal(t, "no number", timeline.Short(0, 0))
}
