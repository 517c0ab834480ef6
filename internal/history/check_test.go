package history_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/history"
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

func TestCheckOnlyLeavesOutUnwantedRules(t *testing.T) {
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

func TestTheOpsOfAViolationBreakItsRuleAgain(t *testing.T) {
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

func TestResourcesAreJudgedSeparately(t *testing.T) {
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

// Slack changes the verdicts of the rules about time only.
func TestSlackIsAddedToBothLimits(t *testing.T) {
	t.Parallel()
	for _, p := range planted {
		h := story(t, p.story)
		h.Slack = time.Second
		if p.rule == "liveness" || p.rule == "bounded-blocking" {
			require.Empty(t, broken(t, h), p.name)
			h.Slack, h.TTL, h.Bound = 0, 0, 0
			require.Empty(t, broken(t, h), p.name)
			continue
		}
		require.Equal(t, []string{p.rule}, ids(broken(t, h)), p.name)
	}
}

func TestRulesAreListed(t *testing.T) {
	t.Parallel()
	at := map[history.Place][]string{}
	for _, rule := range history.Rules() {
		at[rule.At] = append(at[rule.At], rule.String())
		require.True(t, strings.HasSuffix(rule.Words, "."), rule.Words)
	}
	require.Equal(t, map[history.Place][]string{
		history.AtResource: {"order", "holder", "once", "spurious-refusal", "mark", "trace", "versions"},
		history.AtLock:     {"numbers", "owner", "mutual-exclusion", "number-reuse"},
		history.AtProgress: {"liveness", "bounded-blocking"},
	}, at)
	history.Rules()[0].ID = "another"
	require.Equal(t, "order", history.Rules()[0].ID)
}

// expectations maps the names of some planted histories to the Expected text of their
// violations: one history for each way to break a rule.
var expectations = map[string]string{
	"a writer wakes and its write is accepted":                "A's write with #1 should have been refused: the mark was at least #2.",
	"two holders write under one number":                      "#5 should have been accepted from one of the two holders only, and refused from the other.",
	"an acknowledged unit is lost":                            "counted 1, should be 2: acknowledged units are A's with #1 and B's with #2.",
	"a unit is counted twice":                                 "counted 2, should be 1: acknowledged units are A's with #1.",
	"a unit whose answer was lost is counted twice":           "counted 2, should be at most 1: acknowledged units are none; not answered: A's with #1.",
	"one unit in the middle of a long history is lost":        "counted 3, should be 4: 2 were counted before, and acknowledged units since then are A's with #1 and B's with #2.",
	"a unit in the middle of a long history is counted twice": "counted 3, should be 2: 1 were counted before, and acknowledged units since then are A's with #1.",
	"the count falls with a restart":                          "counted 1, should be at least 2: nothing takes units away.",
	"less is counted than at the beginning":                   "counted -1, should be at least 0: nothing takes units away.",
	"an accepted unit is found nowhere":                       "A's unit with #1 should be remembered once, not 0 times: its outcome is accepted.",
	"a unit whose answer was lost is found twice":             "A's unit with #1 should be remembered once at most, not 2 times: its outcome is unknown.",
	"the newer token is refused":                              "B's claim with #2 should not have been refused: the mark was at most #2.",
	"a mark is read below what was written":                   "the mark that M read was #6 and should be at least #7.",
	"a claim is accepted below a write":                       "A's claim with #1 should have been refused: the mark was at least #2.",
	"what was refused once is accepted later":                 "A's write with #1 should have been refused: the mark was at least #2.",
	"a mark is read below a refusal":                          "the mark that M read was #1 and should be at least #2.",
	"a refused unit is counted with others":                   "counted 3, should be at most 2: what was refused or failed is not counted.",
	"a refused unit is found":                                 "A's unit with #1 should be remembered 0 times, not 1: its outcome is refused.",
	"the version of a failed write is read":                   "A's write with #1 should have left no version 3 to be read.",
	"two writes make one version":                             "One of the two writes should have read version 2, and made a later one, or failed.",
	"a write overwrites what it has not read":                 "B's write with #2 read version 1, so it should have made version 2, or failed.",
	"no write made a version":                                 "B's write with #2 should have made version 3: no other write is known that can have made it.",
	"the version falls":                                       "A's write with #1 should have made at least version 4.",
	"a lesser number makes a later version":                   "A's write with #1 should have been refused: the mark was at least #2.",
	"one number is granted twice":                             "One of the two holders should have been given a number of its own.",
	"a later grant has a lesser number":                       "B's grant with #6 should have had at least #8.",
	"a predecessor renews":                                    "A's renewal with #1 should have been refused: #2 had taken the resource.",
	"a stranger renews":                                       "C's renewal with #1 should have been refused: its holder had no lease.",
	"a renewal takes back what was released":                  "A's renewal with #1 should have been refused: its holder had no lease.",
	"a grant before the lease has ended":                      "B's grant with #2 should not have come before the lease of a had ended.",
	"the number of a lost answer is granted to another":       "One of the two holders should have been given a number of its own.",
	"the new holder cannot write":                             "A write should have been accepted within 40ms.",
	"a paused holder keeps a claim waiting":                   "B's claim with #2 should have waited 50ms at most.",

	"one of three units, two of which are at work for long, is lost": "counted 3, should be 4: 1 were counted before, and acknowledged units since then are A's with #1, B's with #2 and C's with #3.",
	"more is counted than even a refused unit explains":              "counted 2, should be 0: acknowledged units are none.",
	"two tries of one unit are counted":                              "counted 2, should be 1: acknowledged units are one, tried as A's with #1 and B's with #2.",
	"no try of an acknowledged unit is counted":                      "counted 0, should be 1: acknowledged units are one, tried as A's with #1, B's with #2 and C's with #3.",
}

// reasons maps the names of some planted histories to the Why of their violations, and how
// many ops show it.
var reasons = map[string]struct {
	why string
	ops int
}{
	"one of three units, two of which are at work for long, is lost": {"1 were counted, 3 more acknowledged, and after that only 3 counted.", 5},
	"a unit in the middle of a long history is counted twice":        {"1 were counted, then 3, and in between only 1 can have been.", 3},
	"more is counted than even a refused unit explains":              {"1 counted, and only 0 can have been.", 1},
	"two tries of one unit are counted":                              {"applied twice: 2 counted, and only 1 can have been: one, tried as A's with #1 and B's with #2.", 3},
	"no try of an acknowledged unit is counted":                      {"lost: 1 were acknowledged, and after that only 0 counted.", 2},
}

func TestAViolationHasTheExpectedOutcome(t *testing.T) {
	t.Parallel()
	said := map[string]string{}
	for _, p := range planted {
		found := broken(t, story(t, p.story))
		require.Len(t, found, 1, p.name)
		require.NotEmpty(t, found[0].Expected, p.name)
		said[p.name] = found[0].Expected
		if want, has := reasons[p.name]; has {
			require.Equal(t, want.why, found[0].Why, p.name)
			require.Len(t, found[0].Ops, want.ops, p.name)
		}
	}
	for name, want := range expectations {
		require.Equal(t, want, said[name], name)
	}
}

// The expected count is a limit if an unanswered unit may be counted or not.
func TestAnUncertainCountIsALimit(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`
			A unit #1 a 0-1 accepted
			B unit #2 b 2-3 accepted
			C unit #3 c 4-5 unknown
			R read - 6-7    accepted counted=1`: "counted 1, should be at least 2: acknowledged units are A's with #1 and B's with #2.",
		`
			A unit #1 a 0-1 accepted
			C unit #3 c 4-5 unknown
			R read - 6-7    accepted counted=3`: "counted 3, should be at most 2: acknowledged units are A's with #1; not answered: C's with #3.",
		`
			A unit #1 a 0-1 accepted
			B unit #2 b 2-3 refused
			R read - 6-7    accepted counted=0`: "counted 0, should be 1: acknowledged units are A's with #1.",
	} {
		found := broken(t, story(t, text))
		require.NotEmpty(t, found)
		require.Equal(t, "once", found[0].Rule.ID)
		require.Equal(t, want, found[0].Expected)
	}
}

func TestAVerdictIsATimeLine(t *testing.T) {
	t.Parallel()
	for want, text := range map[string]string{
		`
mutual-exclusion: At any time one holder has an unexpired lease.
account/42: a and b both held the lease, for 9ms.
expected: B's grant with #2 should not have come before the lease of a had ended.
     from ms       to ms  who  what     token  outcome
       0.000       1.000  A    acquire  #1 a   accepted, until 20.000
      30.000      31.000  A    renew    #1 a   accepted, until 50.000
      40.000      41.000  B    acquire  #2 b   accepted, until 60.000
`: `
			A acquire #1 a 100-101 accepted until=120
			A renew   #1 a 115-116 accepted until=135
			A renew   #1 a 130-131 accepted until=150
			B acquire #2 b 140-141 accepted until=160`,
		`
trace: What was refused, or failed, leaves no trace.
account/42: Version 3 was failed, and yet it was read.
expected: A's write with #1 should have left no version 3 to be read.
     from ms       to ms  who  what   token  outcome
       0.000       1.000  A    write  #1 a   failed, read version 2, made version 3
       2.000       3.000  A    write  #1 a   accepted, read version 3, made version 4
`: `
			A write #1 a 0-1 accepted made=2
			A write #1 a 2-3 failed   seen=2 made=3
			A write #1 a 4-5 accepted seen=3 made=4`,
		`
once: Every acknowledged unit is counted exactly once, however often it was tried, and nothing else is.
account/42: 1 were counted, then 3, and in between only 1 can have been.
expected: counted 3, should be 2: 1 were counted before, and acknowledged units since then are A's with #1.
     from ms       to ms  who  what  token  outcome
       0.000       1.000  R    read  -      accepted, counted 1
       2.000       3.000  A    unit  #1 a   accepted
       6.000       7.000  R    read  -      accepted, counted 3
`: `
			A unit #1 a 0-1   accepted
			R read - 4-5      accepted counted=1
			A unit #1 a 6-7   accepted
			R read - 10-11    accepted counted=3
			B unit #2 b 12-13 accepted`,
		`
once: Every acknowledged unit is counted exactly once, however often it was tried, and nothing else is.
account/42: This unit was accepted, and is remembered 0 times.
expected: A's unit should be remembered once, not 0 times: its outcome is accepted.
     from ms       to ms  who  what  token  outcome
       0.000       1.000  A    unit  a      accepted, counted 0
`: `
			A unit - 0-1 accepted counted=0 holder=a`,
	} {
		found := broken(t, story(t, text))
		require.Len(t, found, 1)
		require.Equal(t, want, "\n"+found[0].String())
	}
}

func TestALongTimeLineIsCutInTheMiddle(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 99 {
		fmt.Fprintf(&text, "A unit #1 a %d-%d accepted\n", 2*i, 2*i+1)
	}
	text.WriteString("R read - 500-501 accepted counted=98")
	found := broken(t, story(t, text.String()))
	require.Len(t, found, 1)
	require.Len(t, found[0].Ops, 100)
	lines := strings.Split(strings.TrimSpace(found[0].String()), "\n")
	require.Equal(t, "expected: counted 98, should be 99: acknowledged units are A's with #1, A's with #1, A's with #1, A's with #1 and 95 more.", lines[2])
	lines = slices.Delete(lines, 2, 3)
	require.Len(t, lines, 3+12+1+12)
	require.Regexp(t, `^ +22.000 +23.000  A `, lines[3+11])
	require.Regexp(t, `^ +\.\.\. +\.\.\. +76 more$`, lines[3+12])
	require.Regexp(t, `^ +176.000 +177.000  A `, lines[3+13])
	require.Regexp(t, `counted 98$`, lines[3+24])
}
