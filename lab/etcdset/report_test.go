package etcdset_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// report is the result of one run or of several: see add.
type report struct {
	Runs     int
	Length   time.Duration // of all runs
	Pauses   int
	Paused   time.Duration // by all pauses, whatever the number of stopped processes
	Longer   int           // pauses that lasted longer than the TTL
	Servers  string        // with their versions
	Troubles int           // additions that could not begin
	Trouble  string        // the last of these errors
	Counts   []count       // in the order of config.Ways
}

// add adds the figures of another run of the same ways.
func (r *report) add(other *report) {
	if r.Runs == 0 {
		*r = *other
		return
	}
	r.Runs += other.Runs
	r.Length += other.Length
	r.Pauses += other.Pauses
	r.Paused += other.Paused
	r.Longer += other.Longer
	r.Troubles += other.Troubles
	r.Trouble = other.Trouble
	for i, c := range other.Counts {
		r.Counts[i].add(c)
	}
}

// verdict returns nil if the fenced ways lost nothing, no set has a refused value, and
// every way had an acknowledged addition.
func (r *report) verdict() error {
	var errs []error
	for _, c := range r.Counts {
		if c.Acknowledged == 0 {
			errs = append(errs, fmt.Errorf("etcdset: %s: nothing was acknowledged: %s", c.Way, r.Trouble))
		}
		if c.Way.fenced() && c.Lost > 0 {
			errs = append(errs, fmt.Errorf("etcdset: %s: %d of %d acknowledged additions were lost", c.Way, c.Lost, c.Acknowledged))
		}
		if c.Ghosts > 0 {
			errs = append(errs, fmt.Errorf("etcdset: %s: the set has %d members that it must not have", c.Way, c.Ghosts))
		}
	}
	return errors.Join(errs...)
}

// controlError returns an error if the lock alone lost nothing: then the other ways prove
// nothing.
func (r *report) controlError() error {
	for _, c := range r.Counts {
		if c.Way == lockOnly && c.Lost > 0 {
			return nil
		}
	}
	return errors.New("etcdset: the lock alone lost nothing, so the run proves nothing")
}

// String returns the table in Markdown, after a line that describes the run.
func (r *report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s; runs: %d, %v in all; pauses: %d, %v in all, %d of them longer than the ttl\n\n", r.Servers,
		r.Runs, r.Length.Round(time.Second), r.Pauses, r.Paused.Round(time.Second), r.Longer)
	b.WriteString("| | acknowledged | lost | of these | refused | failed | unknown |\n|---|--:|--:|--:|--:|--:|--:|\n")
	for _, c := range r.Counts {
		percent := 0.0
		if c.Acknowledged > 0 {
			percent = 100 * float64(c.Lost) / float64(c.Acknowledged)
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %.1f %% | %d | %d | %d |\n", titles[c.Way],
			c.Acknowledged, c.Lost, percent, c.Refused, c.Failed, c.Unknown)
	}
	return b.String()
}

// count is the result of one way.
type count struct {
	Way          way
	Begun        int // Acknowledged + Refused + Failed + Unknown
	Acknowledged int
	Lost         int // acknowledged, and not in the set
	Refused      int // as stale: by the fence, or by the check
	Failed       int // not written for another reason: lease lost, evicted
	Unknown      int // sent, and not answered
	Ghosts       int // in the set, although refused, failed, never begun, or already there
}

func (c *count) add(d count) {
	c.Begun += d.Begun
	c.Acknowledged += d.Acknowledged
	c.Lost += d.Lost
	c.Refused += d.Refused
	c.Failed += d.Failed
	c.Unknown += d.Unknown
	c.Ghosts += d.Ghosts
}

// tally collects the reports of the workers. It is safe for concurrent use.
type tally struct {
	mu       sync.Mutex
	answers  map[way]map[int64]answer
	troubles int
	trouble  string // the last error
}

func (t *tally) record(e event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.Trouble != "" {
		t.troubles++
		t.trouble = string(e.Way) + ": " + e.Trouble
		return
	}
	if t.answers == nil {
		t.answers = make(map[way]map[int64]answer)
	}
	if t.answers[e.Way] == nil {
		t.answers[e.Way] = make(map[int64]answer)
	}
	t.answers[e.Way][e.Value] = e.Answer
}

// atWork reports whether each of the ways has acknowledged an addition.
func (t *tally) atWork(ways []way) bool {
	for _, way := range ways {
		if t.count(way, nil).Acknowledged == 0 {
			return false
		}
	}
	return true
}

// count compares the answers with the final set.
func (t *tally) count(way way, members []int64) count {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := count{Way: way}
	present := make(map[int64]bool)
	for _, m := range members {
		told, begun := t.answers[way][m]
		if present[m] || !begun || told == refused || told == failed {
			c.Ghosts++
		}
		present[m] = true
	}
	for value, told := range t.answers[way] {
		c.Begun++
		switch told {
		case acknowledged:
			c.Acknowledged++
			if !present[value] {
				c.Lost++
			}
		case refused:
			c.Refused++
		case failed:
			c.Failed++
		default:
			c.Unknown++
		}
	}
	return c
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	lucky := count{Way: lockOnly, Begun: 9, Acknowledged: 9}
	bad := count{Way: lockOnly, Begun: 9, Acknowledged: 9, Lost: 2}
	good := count{Way: claimed, Begun: 9, Acknowledged: 8, Refused: 1}
	for name, c := range map[string]struct {
		counts                []count
		verdict, controlError string
	}{
		"the fence holds":                 {[]count{bad, good}, "", ""},
		"the lock alone lost nothing":     {[]count{lucky, good}, "", "etcdset: the lock alone lost nothing, so the run proves nothing"},
		"the fence lost one":              {[]count{bad, {Way: claimed, Acknowledged: 8, Lost: 1}}, "etcdset: claimed: 1 of 8 acknowledged additions were lost", ""},
		"the other fence lost one":        {[]count{bad, {Way: transaction, Acknowledged: 8, Lost: 1}}, "etcdset: transaction: 1 of 8 acknowledged additions were lost", ""},
		"the set has what was refused":    {[]count{bad, {Way: claimed, Acknowledged: 8, Ghosts: 1}}, "etcdset: claimed: the set has 1 members that it must not have", ""},
		"one of the ways was not at work": {[]count{bad, {Way: claimed}}, "etcdset: claimed: nothing was acknowledged: it hangs", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := report{Counts: c.counts, Trouble: "it hangs"}
			for want, err := range map[*string]error{&c.verdict: r.verdict(), &c.controlError: r.controlError()} {
				if *want == "" {
					require.NoError(t, err)
				} else {
					require.EqualError(t, err, *want)
				}
			}
		})
	}
}

func TestReportsAddUp(t *testing.T) {
	t.Parallel()
	run := func() *report {
		return &report{
			Runs: 1, Length: time.Minute, Pauses: 3, Paused: 7 * time.Second, Longer: 2, Servers: "Redis 7", Troubles: 1,
			Counts: []count{
				{Way: lockOnly, Begun: 15, Acknowledged: 10, Lost: 3, Refused: 1, Failed: 2, Unknown: 2, Ghosts: 1},
				{Way: claimed, Begun: 5, Acknowledged: 5},
			},
		}
	}
	var total report
	total.add(run())
	total.add(run())
	require.Equal(t, count{
		Way: lockOnly, Begun: 30, Acknowledged: 20, Lost: 6, Refused: 2, Failed: 4, Unknown: 4, Ghosts: 2,
	}, total.Counts[0])
	require.Equal(t, 2, total.Troubles)
	require.Equal(t, `Redis 7; runs: 2, 2m0s in all; pauses: 6, 14s in all, 4 of them longer than the ttl

| | acknowledged | lost | of these | refused | failed | unknown |
|---|--:|--:|--:|--:|--:|--:|
| lock only | 20 | 6 | 30.0 % | 2 | 4 | 4 |
| **Fencepost**: claim, read, guarded write | 10 | 0 | 0.0 % | 0 | 0 | 0 |
`, total.String())
}

// The answers and the final set decide whether an addition was lost.
func TestCounting(t *testing.T) {
	t.Parallel()
	const unanswered answer = ""
	told := func(t ...answer) []answer { return t }
	for name, c := range map[string]struct {
		told    []answer // of the values 1, 2, …
		members []int64
		want    count
	}{
		"everything is there":                {told(acknowledged, acknowledged), []int64{2, 1}, count{Begun: 2, Acknowledged: 2}},
		"an acknowledged one is not there":   {told(acknowledged, acknowledged), []int64{2}, count{Begun: 2, Acknowledged: 2, Lost: 1}},
		"nothing is there":                   {told(acknowledged), nil, count{Begun: 1, Acknowledged: 1, Lost: 1}},
		"a refused one is not there":         {told(refused), nil, count{Begun: 1, Refused: 1}},
		"a refused one is there":             {told(refused), []int64{1}, count{Begun: 1, Refused: 1, Ghosts: 1}},
		"a failed one is not there":          {told(failed), nil, count{Begun: 1, Failed: 1}},
		"a failed one is there":              {told(failed), []int64{1}, count{Begun: 1, Failed: 1, Ghosts: 1}},
		"an unknown one is not there":        {told(unknown), nil, count{Begun: 1, Unknown: 1}},
		"an unknown one is there":            {told(unknown), []int64{1}, count{Begun: 1, Unknown: 1}},
		"one that was never answered":        {told(unanswered), []int64{1}, count{Begun: 1, Unknown: 1}},
		"one is there that was not added":    {told(acknowledged), []int64{1, 7}, count{Begun: 1, Acknowledged: 1, Ghosts: 1}},
		"one is there twice":                 {told(acknowledged), []int64{1, 1}, count{Begun: 1, Acknowledged: 1, Ghosts: 1}},
		"nothing was done, nothing is there": {nil, nil, count{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var reported tally
			for i, a := range c.told {
				reported.record(event{Way: lockOnly, Value: int64(i + 1), Answer: unknown})
				if a != unanswered {
					reported.record(event{Way: lockOnly, Value: int64(i + 1), Answer: a})
				}
			}
			c.want.Way = lockOnly
			require.Equal(t, c.want, reported.count(lockOnly, c.members))
		})
	}
}
