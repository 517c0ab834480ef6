package history_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/history"
)

// atResource returns the ids of those violations that SecondOpinion finds as well.
func atResource(found []history.Violation) []string {
	return ids(slices.DeleteFunc(found, func(v history.Violation) bool {
		return v.Rule.At != history.AtResource
	}))
}

// tellsByVersion reports whether trace is broken by a version that only a refused write
// made. SecondOpinion does not find that.
func tellsByVersion(found []history.Violation) bool {
	return slices.ContainsFunc(found, func(v history.Violation) bool {
		return v.Rule.ID == "trace" && (len(v.Ops) == 2 && v.Ops[1].Seen > 0 || v.Ops[0].Kind == history.Write)
	})
}

func TestBothJudgesFindTheSameHistoriesIncorrect(t *testing.T) {
	t.Parallel()
	both, none := 0, 0
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 7))
		ops := newWorld(seed, "account/1").live(3, 20+rng.IntN(30))
		h := history.History{Ops: spoil(rng, spoil(rng, ops))}
		found := broken(t, h)
		rules := atResource(slices.Clone(found))
		err := history.SecondOpinion(h, time.Minute)
		if len(rules) == 1 && tellsByVersion(found) {
			continue
		}
		require.Equal(t, len(rules) > 0, err != nil, "seed %d: %v, %v", seed, found, err)
		if err != nil {
			both++
		} else {
			none++
		}
	}
	t.Logf("both accuse %d histories and neither accuses %d", both, none)
	require.Greater(t, both, 400)
	require.Greater(t, none, 500)
}

func TestTheSecondOpinionOfPlantedHistories(t *testing.T) {
	t.Parallel()
	for _, p := range planted {
		t.Run(p.rule+": "+p.name, func(t *testing.T) {
			t.Parallel()
			h := story(t, p.story)
			found := broken(t, h)
			err := history.SecondOpinion(h, time.Minute)
			if tellsByVersion(found) {
				return // the second opinion may find the gap or not
			}
			if found[0].Rule.At != history.AtResource {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, `history: "account/42" cannot have answered like this, one question after the other`)
		})
	}
}

func TestAnOpinionThatTimesOutIsAnError(t *testing.T) {
	t.Parallel()
	h := crowd(20_000)
	err := history.SecondOpinion(h, time.Microsecond)
	require.ErrorContains(t, err, "no second opinion")
}

func TestAnOpinionNeedsATimeout(t *testing.T) {
	t.Parallel()
	require.Error(t, history.SecondOpinion(history.History{}, 0))
	require.Error(t, history.SecondOpinion(history.History{}, -1))
	require.NoError(t, history.SecondOpinion(history.History{}, time.Minute))
}

func TestAMalformedHistoryGetsNoSecondOpinion(t *testing.T) {
	t.Parallel()
	err := history.SecondOpinion(history.History{Ops: []history.Op{{}}}, time.Minute)
	require.ErrorContains(t, err, "history: malformed ")
}

// The ops of a violation must break its rule again, for random histories too.
func TestTheVerdictsOfRandomHistoriesStandAlone(t *testing.T) {
	t.Parallel()
	caught := map[string]int{}
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 11))
		h := history.History{Ops: spoil(rng, spoil(rng, newWorld(seed, "account/1").live(3, 50)))}
		for _, v := range broken(t, h) {
			alone := broken(t, history.History{Ops: v.Ops})
			require.Contains(t, ids(alone), v.Rule.ID, "seed %d: %v", seed, v)
			caught[v.Rule.ID]++
		}
	}
	t.Log(caught)
	for _, rule := range history.Rules() {
		if rule.At != history.AtProgress { // not judged without limits
			require.Positive(t, caught[rule.ID], rule.ID)
		}
	}
}
