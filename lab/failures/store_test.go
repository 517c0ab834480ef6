package failures_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
)

const resource = "account/42"

// store is the resource that is written to. It outlives the issuer's servers.
type store struct {
	guarded  bool
	recorder *history.Recorder

	mu     sync.Mutex
	marks  guard.Memory
	writes []write // in the order in which they were applied
}

// write is an accepted write.
type write struct {
	tok token.Token
	at  time.Time
}

// claim is called before the work.
func (s *store) claim(ctx context.Context, tok token.Token) error {
	return s.do(ctx, history.Claim, tok, func() {})
}

func (s *store) write(ctx context.Context, tok token.Token) error {
	return s.do(ctx, history.Write, tok, func() { s.writes = append(s.writes, write{tok, time.Now()}) })
}

func (s *store) do(ctx context.Context, kind history.Kind, tok token.Token, apply func()) error {
	op := s.recorder.Begin(history.Op{
		Kind: kind, Writer: writer(ctx), Resource: tok.Resource, Number: tok.Number, Holder: tok.Holder,
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if s.guarded {
		err = s.marks.Admit(ctx, tok)
	}
	if err == nil {
		apply()
	}
	outcome := history.OutcomeOf(err)
	if ctx.Err() != nil && outcome == history.Unknown {
		outcome = history.Failed // the guard refused a caller that had given up
	}
	op.End(outcome, nil)
	return err
}

func (s *store) all() []write {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes[:len(s.writes):len(s.writes)]
}

// writerKey is the context's key for the writer's name in the history.
type writerKey struct{}

func writer(ctx context.Context) string {
	name, _ := ctx.Value(writerKey{}).(string)
	return name
}

// grants are the tokens that lockers acquired, in the order of their hooks.
type grants struct {
	mu         sync.Mutex
	tokens     []token.Token
	recoveries int
}

func (g *grants) observer() lock.Hooks {
	return lock.Hooks{
		Acquired:    func(_ context.Context, tok token.Token, _ time.Duration) { g.add(tok) },
		Recovered:   func(context.Context, token.Token, int64) { g.addRecovery() },
		RenewFailed: func(context.Context, token.Token, time.Duration, error) {}, // keeps expected failures out of the log
	}
}

func (g *grants) add(tok token.Token) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tokens = append(g.tokens, tok)
}

func (g *grants) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.tokens)
}

func (g *grants) addRecovery() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.recoveries++
}

func (g *grants) recoveryCount() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.recoveries
}

// fell reports whether the issuer granted a number that was not above all earlier
// numbers: it had forgotten them.
func (g *grants) fell() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return falls(g.tokens)
}

// falls reports whether a token's number is not above an earlier one of another holder.
func falls(tokens []token.Token) bool {
	var top token.Token
	for _, tok := range tokens {
		if tok.Number < top.Number || tok.Number == top.Number && tok.Holder != top.Holder {
			return true
		}
		top = tok
	}
	return false
}

// check fails the test if the resource's history breaks a rule. The lock may break its
// own rules: the guard has to prevent the damage.
func (r *round) check() {
	r.Helper()
	require.Empty(r, r.broken())
	require.False(r, falls(r.accepted()), "the guard accepted two holders under equal or falling numbers")
}

// broken returns the broken rules of the resource.
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

// summary is the result of a configuration's rounds.
type summary struct {
	name             string
	resumed          []time.Duration
	fell, recoveries int
	writes, refused  int
}

func (s *summary) add(r *round) {
	s.resumed = append(s.resumed, r.resumed)
	if r.grants.fell() {
		s.fell++
	}
	s.recoveries += r.grants.recoveryCount()
	s.writes += len(r.all())
	for _, op := range r.recorder.History().Ops {
		if op.Outcome == history.Refused {
			s.refused++
		}
	}
}

func (s *summary) String() string {
	if len(s.resumed) == 0 {
		return "no round was completed"
	}
	slices.Sort(s.resumed)
	n := len(s.resumed)
	inTime := slices.IndexFunc(s.resumed, func(d time.Duration) bool { return d > promised })
	if inTime < 0 {
		inTime = n
	}
	return fmt.Sprintf("%s: %d rounds: numbers fell in %d, recovered %d times; %d writes accepted, %d refused; "+
		"a new holder wrote after %v at the median, %v at most; within %v in %d",
		s.name, n, s.fell, s.recoveries, s.writes, s.refused,
		s.resumed[n/2].Round(time.Millisecond), s.resumed[n-1].Round(time.Millisecond), promised, inTime)
}
