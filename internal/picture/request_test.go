package picture_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/simulations/history"
)

// drawn is how a node's shape says what became of it.
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

// told are the groups of ops by what they say.
func told(root node) map[string][]node {
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

func TestEveryWriteIsInThePictureWithWhatBecameOfIt(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		s := guarded(t, seed)
		s.History.Ops[3].Outcome = history.Failed
		if seed%2 == 0 {
			s = unguarded(t, seed)
		}
		groups := told(svg(t, s))
		wanted := 0
		for _, op := range s.History.Ops {
			if op.Kind != history.Write && op.Kind != history.Claim {
				continue
			}
			wanted++
			text := fmt.Sprintf("%s: %s %s, #%d", op.Writer, op.Kind, op.Outcome, op.Number)
			found := 0
			for said, all := range groups {
				if strings.Contains(said, text) {
					for _, g := range all {
						require.Equal(t, op.Outcome, drawn(g), said)
						require.Len(t, g.class("glyph"), 1, said)
						require.Len(t, g.class("request"), 1, said)
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
	root := svg(t, scene(t, history.History{Ops: []history.Op{op}}))
	require.Len(t, root.class("request"), 1)
	inside := op
	inside.Kind, inside.Outcome, op.Outcome = history.Write, history.Accepted, history.Accepted
	root = svg(t, scene(t, history.History{Ops: []history.Op{op, inside}}))
	require.Len(t, root.class("request"), 1, "the write's")
	require.Len(t, root.class("unit"), 2, "and a line for the unit, here and in the legend")
}

func TestEachOutcomeHasAShapeOfItsOwn(t *testing.T) {
	t.Parallel()
	for _, outcome := range []history.Outcome{history.Accepted, history.Refused, history.Unknown, history.Failed} {
		op := history.Op{Kind: history.Write, Writer: "A", Resource: resource, Outcome: outcome, Number: 7, Holder: "A:1"}
		root := svg(t, scene(t, history.History{Ops: []history.Op{op}}))
		for _, groups := range told(root) {
			require.Equal(t, outcome, drawn(groups[0]))
		}
	}
}
