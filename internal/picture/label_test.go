package picture_test

import (
	"cmp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Texts on one line are kept apart by what they take at the least: half of
// their size for each character.
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

// A token is inside its lease, and before whatever else is drawn there.
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

func TestWhatMattersMostIsWrittenLast(t *testing.T) {
	t.Parallel()
	s := unguarded(t, 2)
	require.NotEmpty(t, s.Violations)
	s.Small = true
	root := svg(t, s)
	bad := root.all(func(n node) bool { return n.is("word") && n.is("bad") })
	require.Len(t, bad, len(s.Violations[0].Ops))
	require.Less(t, len(root.class("word")), len(svg(t, unguarded(t, 2)).class("word")))
}
