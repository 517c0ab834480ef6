package picture_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheRedLineStandsWhereTheLastOpOfTheViolationEnded(t *testing.T) {
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
		for said, groups := range told(root) {
			if rings := groups[0].class("ring"); len(rings) > 0 && strings.Contains(said, ended) {
				require.InDelta(t, line, rings[0].number(t, "cx"), 0.01)
				found = true
			}
		}
		require.True(t, found, "the op itself is ringed")
		require.Len(t, root.class("ring"), len(ops), "as all that break the rule")
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
