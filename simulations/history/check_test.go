package history_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/simulations/history"
)

func broken(t *testing.T, h history.History) []history.Violation {
	t.Helper()
	found, err := history.Check(h)
	require.NoError(t, err)
	return found
}

func ids(found []history.Violation) []string {
	var all []string
	for _, v := range found {
		all = append(all, v.Rule.ID)
	}
	return all
}

func TestEachPlantedHistoryIsCaughtByItsRuleAlone(t *testing.T) {
	t.Parallel()
	for _, p := range planted {
		t.Run(p.rule+": "+p.name, func(t *testing.T) {
			t.Parallel()
			found := broken(t, story(t, p.story))
			require.Equal(t, []string{p.rule}, ids(found), "%v", found)
			require.Equal(t, "account/42", found[0].Resource)
			require.NotEmpty(t, found[0].Why)
		})
	}
}

func TestWhatIsNotWantedIsNotJudged(t *testing.T) {
	t.Parallel()
	for _, p := range planted {
		for _, wanted := range []bool{true, false} {
			found, err := history.CheckOnly(story(t, p.story), func(r history.Rule) bool { return (r.ID == p.rule) == wanted })
			require.NoError(t, err)
			require.Equal(t, wanted, len(found) == 1, "%s: %s: %v", p.rule, p.name, found)
		}
	}
}

func TestEveryRuleIsPlanted(t *testing.T) {
	t.Parallel()
	var caught []string
	for _, p := range planted {
		if !slices.Contains(caught, p.rule) {
			caught = append(caught, p.rule)
		}
	}
	var all []string
	for _, rule := range history.Rules() {
		all = append(all, rule.ID)
	}
	require.Equal(t, all, caught)
}

func TestNothingLegalIsAccused(t *testing.T) {
	t.Parallel()
	for _, l := range legal {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			h := story(t, l.story)
			require.Empty(t, broken(t, h))
			require.NoError(t, history.SecondOpinion(h, time.Minute))
		})
	}
}

func TestAVerdictStandsAlone(t *testing.T) {
	t.Parallel()
	for _, p := range planted {
		t.Run(p.rule+": "+p.name, func(t *testing.T) {
			t.Parallel()
			h := story(t, p.story)
			v := broken(t, h)[0]
			h.Ops = v.Ops
			require.Equal(t, []string{p.rule}, ids(broken(t, h)), "%v", v)
			for i := range v.Ops {
				h.Ops = slices.Delete(slices.Clone(v.Ops), i, i+1)
				for _, less := range broken(t, h) {
					require.NotEqual(t, v.Why, less.Why, "without op %d of %v", i, v)
				}
			}
		})
	}
}

func TestTheOrderOfTheOpsDoesNotMatter(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for _, p := range planted {
		h := story(t, p.story)
		for range 10 {
			rng.Shuffle(len(h.Ops), func(i, j int) { h.Ops[i], h.Ops[j] = h.Ops[j], h.Ops[i] })
			require.Equal(t, []string{p.rule}, ids(broken(t, h)), p.name)
		}
	}
}

func TestResourcesHaveNothingToDoWithEachOther(t *testing.T) {
	t.Parallel()
	for _, p := range planted {
		h := story(t, p.story)
		other := slices.Clone(h.Ops)
		for i := range other {
			other[i].Resource = "account/43"
			if len(h.Ops) > 1 && i%2 == 0 {
				other[i].Resource = "account/44"
			}
		}
		both := broken(t, history.History{TTL: h.TTL, Bound: h.Bound, Ops: slices.Concat(h.Ops, other)})
		require.Contains(t, ids(both), p.rule)
		require.Equal(t, "account/42", both[0].Resource, p.name)
	}
}

// Slack shifts the rules of time, and nothing else.
func TestSlackIsAddedToBothLimits(t *testing.T) {
	t.Parallel()
	for _, p := range planted {
		h := story(t, p.story)
		h.Slack = time.Second
		if p.rule == "alive" || p.rule == "bound" {
			require.Empty(t, broken(t, h), p.name)
			h.Slack, h.TTL, h.Bound = 0, 0, 0
			require.Empty(t, broken(t, h), p.name)
			continue
		}
		require.Equal(t, []string{p.rule}, ids(broken(t, h)), p.name)
	}
}
