package simulations_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/token"
)

// mutants are guards, issuers and habits that are wrong, each in one way, with
// the rule that the run must find broken.
var mutants = []struct {
	name   string
	rule   string
	mutate func(l *ledger, s *simulations.Subject)
}{
	{"no guard at all", "order", func(l *ledger, _ *simulations.Subject) { // hazard G2
		l.marks = blind{}
	}},
	{"no guard at all, and nothing to be seen of the write", "order", func(l *ledger, s *simulations.Subject) { // hazard G2
		s.Do = func(context.Context) error {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.units++
			return nil
		}
	}},
	{"a check in one step and the write in the next", "once", func(l *ledger, s *simulations.Subject) { // hazard G1
		s.Do = func(ctx context.Context) error {
			tok, err := token.FromContext(ctx, resource)
			if err == nil {
				err = l.marks.Admit(ctx, tok)
			}
			if err != nil {
				return err
			}
			seen := l.read()
			simulations.Point(ctx, "checked")
			l.mu.Lock()
			defer l.mu.Unlock()
			l.units = seen + 1
			return nil
		}
	}},
	{"only the write is fenced, nothing is claimed", "once", func(_ *ledger, s *simulations.Subject) { // hazard G3
		s.Claim = nil
	}},
	{"a mark that refuses its own holder's second write", "reason", func(l *ledger, s *simulations.Subject) { // hazard G4
		l.marks = &compare{admits: func(number, mark int64) bool { return number > mark }}
		s.Claim = nil
		s.Do = func(ctx context.Context) error {
			if err := l.Do(ctx); err != nil {
				return err
			}
			return l.write(ctx, l.read())
		}
	}},
	{"equality instead of order", "reason", func(l *ledger, s *simulations.Subject) { // hazard G5
		l.marks = &compare{admits: func(number, mark int64) bool { return mark == 0 || number == mark }}
		s.Claim = nil
	}},
	{"a mark that forgets", "mark", func(l *ledger, s *simulations.Subject) { // hazard G9, G10
		forgetful := &compare{admits: func(int64, int64) bool { return true }}
		l.marks = forgetful
		s.Claim = forgetful.Admit
		s.Mark = func(context.Context) (guard.Mark, error) { return guard.Mark{}, nil }
	}},
	{"an issuer that repeats itself", "numbers", func(_ *ledger, s *simulations.Subject) { // hazard R1
		s.Issuer = repeating{s.Issuer}
	}},
	{"an issuer that renews for anybody", "owner", func(_ *ledger, s *simulations.Subject) { // hazard R7
		s.Issuer = generous{s.Issuer}
	}},
	{"a renewal that takes the lock back", "owner", func(_ *ledger, s *simulations.Subject) { // hazard L4
		s.Issuer = reclaiming{s.Issuer}
	}},
	{"the token of whoever was granted last", "order", func(l *ledger, s *simulations.Subject) { // hazard L2
		var last atomic.Pointer[token.Token]
		s.Claim = func(ctx context.Context, tok token.Token) error {
			last.Store(&tok)
			return l.marks.Admit(ctx, tok)
		}
		s.Do = func(ctx context.Context) error {
			seen := l.read()
			simulations.Point(ctx, "computed")
			return l.write(token.NewContext(ctx, *last.Load()), seen+1)
		}
	}},
	{"a text comparison", "reason", func(l *ledger, s *simulations.Subject) { // hazard G14
		l.marks = &compare{admits: func(number, mark int64) bool { return strconv.FormatInt(number, 10) >= strconv.FormatInt(mark, 10) }}
		s.Claim, s.Issuer = nil, counting{s.Issuer, new(atomic.Int64)}
		s.Do = func(ctx context.Context) error { return l.write(ctx, l.read()+1) }
	}},
	{"a refusal after the write", "trace", func(l *ledger, s *simulations.Subject) {
		s.Do = func(ctx context.Context) error {
			seen := l.read()
			simulations.Point(ctx, "computed")
			err := l.write(ctx, seen+1)
			if err != nil {
				l.mu.Lock()
				defer l.mu.Unlock()
				l.units++
			}
			return err
		}
	}},
}

func TestMutantsAreCaught(t *testing.T) {
	t.Parallel()
	for _, mutant := range mutants {
		t.Run(mutant.name, func(t *testing.T) {
			t.Parallel()
			l := &ledger{marks: new(guard.Memory)}
			s := l.subject()
			mutant.mutate(l, &s)
			err := simulations.Examine(t, s)
			var verdict *simulations.Verdict
			require.ErrorAs(t, err, &verdict)
			require.True(t, verdict.Breaks(mutant.rule), "%v", err)
			t.Log(err)
		})
	}
}

func TestATwinThatStillRefusesIsToothless(t *testing.T) {
	t.Parallel()
	l := &ledger{marks: &compare{admits: func(number, mark int64) bool { return number >= mark }}}
	s := l.subject()
	s.Budget = time.Millisecond
	var verdict *simulations.Verdict
	require.ErrorAs(t, simulations.Examine(t, s), &verdict)
	require.True(t, verdict.Toothless(), "%v", verdict)
	s.Unguarded = func(ctx context.Context) error {
		seen := l.read()
		simulations.Point(ctx, "computed")
		l.mu.Lock()
		defer l.mu.Unlock()
		l.units = seen + 1
		return nil
	}
	require.NoError(t, simulations.Examine(t, s))
}

// blind admits everything.
type blind struct{}

func (blind) Admit(context.Context, token.Token) error { return nil }

// compare is a guard with a rule of its own.
type compare struct {
	mu     sync.Mutex
	admits func(number, mark int64) bool
	mark   guard.Mark
}

func (c *compare) Admit(_ context.Context, tok token.Token) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.admits(tok.Number, c.mark.Number) {
		return &guard.StaleError{Token: tok, Mark: c.mark}
	}
	c.mark = guard.Mark{Number: tok.Number, Holder: tok.Holder}
	return nil
}

// repeating grants 7, for ever.
type repeating struct{ token.Issuer }

func (r repeating) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	grant, err := r.Issuer.Acquire(ctx, resource, holder, ttl)
	grant.Token.Number = 7
	return grant, err
}

// generous renews whatever it is asked to.
type generous struct{ token.Issuer }

func (generous) Renew(_ context.Context, _ token.Token, ttl time.Duration) (time.Time, error) {
	return time.Now().Add(ttl), nil
}

// reclaiming has a renewal wait until it can acquire.
type reclaiming struct{ token.Issuer }

func (r reclaiming) Renew(ctx context.Context, tok token.Token, ttl time.Duration) (time.Time, error) {
	grant, err := r.Acquire(ctx, tok.Resource, tok.Holder, ttl)
	return grant.Until, err
}

// counting counts from 1.
type counting struct {
	token.Issuer
	last *atomic.Int64
}

func (c counting) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	grant, err := c.Issuer.Acquire(ctx, resource, holder, ttl)
	if err == nil {
		grant.Token.Number = c.last.Add(1)
	}
	return grant, err
}
