package failures_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/simulations/history"
	"github.com/fencepost/fencepost/token"
)

// judge fails the test where the resource's history breaks a rule. What the lock
// does may break those of the lock: that is what the guard is for.
func (r *round) judge() {
	r.Helper()
	require.Empty(r, r.broken())
	require.False(r, falls(r.accepted()), "the guard accepted two holders under equal or falling numbers")
}

// broken are the rules that were broken at the resource.
func (r *round) broken() (found []history.Violation) {
	r.Helper()
	h := r.recorder.History()
	h.TTL, h.Slack = ttl, slack
	all, err := history.Check(h)
	require.NoError(r, err)
	return slices.DeleteFunc(all, func(v history.Violation) bool { return v.Rule.At == history.AtLock })
}

func (r *round) accepted() []token.Token {
	var tokens []token.Token
	for _, w := range r.all() {
		tokens = append(tokens, w.tok)
	}
	return tokens
}

// summary is what a configuration's rounds came to.
type summary struct {
	name            string
	healed          []time.Duration
	fell, healings  int
	writes, refused int
}

func (s *summary) add(r *round) {
	s.healed = append(s.healed, r.healed)
	if r.grants.fell() {
		s.fell++
	}
	s.healings += r.grants.healings()
	s.writes += len(r.all())
	for _, op := range r.recorder.History().Ops {
		if op.Outcome == history.Refused {
			s.refused++
		}
	}
}

func (s *summary) String() string {
	if len(s.healed) == 0 {
		return "no round was played to its end"
	}
	slices.Sort(s.healed)
	n := len(s.healed)
	inTime := slices.IndexFunc(s.healed, func(d time.Duration) bool { return d > promised })
	if inTime < 0 {
		inTime = n
	}
	return fmt.Sprintf("%s: %d rounds: numbers fell in %d, healed %d times; %d writes accepted, %d refused; "+
		"a new holder wrote after %v at the median, %v at most; within %v in %d",
		s.name, n, s.fell, s.healings, s.writes, s.refused,
		s.healed[n/2].Round(time.Millisecond), s.healed[n-1].Round(time.Millisecond), promised, inTime)
}
