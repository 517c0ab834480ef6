package simulations_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

const resource = "account/42"

// ledger counts in memory. Each unit reads, computes, and writes the result, like code
// with a database.
type ledger struct {
	mu    sync.Mutex
	units int
	marks guard.Store
}

func (l *ledger) read() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.units
}

func (l *ledger) Do(ctx context.Context) error {
	seen := l.read()
	simulations.Failpoint(ctx, "computed")
	return l.write(ctx, seen+1)
}

// write compares and writes in one step, as a transaction does.
func (l *ledger) write(ctx context.Context, units int) error {
	tok, err := token.FromContext(ctx, resource)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.marks.Admit(ctx, tok); err != nil {
		return err
	}
	l.units = units
	return nil
}

func (l *ledger) Count(context.Context) (int, error) { return l.read(), nil }

func (l *ledger) subject() simulations.Subject {
	return simulations.Subject{
		Issuer: new(memtoken.Issuer), Resource: resource,
		Do: l.Do, Count: l.Count, Claim: l.marks.Admit, Unseen: "the ledger is in memory",
	}
}

func runInMemory(t *testing.T, try scope) {
	simulations.Run(t, try((&ledger{marks: new(guard.Memory)}).subject()))
}

// odd are unusual subjects that are correct.
var odd = map[string]func(l *ledger, s *simulations.Subject){
	"a unit whose steps are not traced": func(l *ledger, s *simulations.Subject) {
		s.Do = func(ctx context.Context) error { return l.write(ctx, l.read()+1) }
	},
	"leases as short as can be":  func(_ *ledger, s *simulations.Subject) { s.TTL = 20 * time.Millisecond },
	"leases that outlast a test": func(_ *ledger, s *simulations.Subject) { s.TTL = time.Hour },
	"an issuer that takes nothing back": func(_ *ledger, s *simulations.Subject) {
		s.Issuer = keeping{s.Issuer}
	},
	"an error without a meaning for the count": func(l *ledger, s *simulations.Subject) {
		s.Do = func(ctx context.Context) error {
			if err := l.Do(ctx); err != nil {
				return fmt.Errorf("ledger: %v", err)
			}
			return nil
		}
	},
	"goroutines, a second lock, two writes, a far beginning": func(l *ledger, s *simulations.Subject) {
		l.units = 1 << 40
		locks := &lock.Locker{Issuer: s.Issuer, Claim: l.marks.Admit}
		s.Do = func(ctx context.Context) error {
			return locks.HoldAll(ctx, []string{"ledger/b", resource}, func(ctx context.Context) error {
				var group sync.WaitGroup
				for range 3 {
					group.Go(func() { simulations.Failpoint(ctx, "beside") })
				}
				group.Wait()
				return errors.Join(l.write(ctx, l.read()), l.Do(ctx))
			})
		}
	},
	"a transaction that often has to be tried again": func(l *ledger, s *simulations.Subject) {
		var mu sync.Mutex
		s.Do = func(ctx context.Context) error {
			for {
				if mu.TryLock() {
					defer mu.Unlock()
					return l.Do(ctx)
				}
				time.Sleep(time.Millisecond)
			}
		}
	},
	"a server that now and then fails": func(l *ledger, s *simulations.Subject) {
		var units atomic.Int64
		s.Do = func(ctx context.Context) error {
			if units.Add(1)%5 == 0 {
				return errOutOfOrder
			}
			return l.Do(ctx)
		}
	},
	"one connection for the issuer and the work": func(l *ledger, s *simulations.Subject) {
		pool := make(chan struct{}, 1)
		s.Issuer = pooled{s.Issuer, pool}
		s.Do = func(ctx context.Context) error { return with(ctx, pool, func() error { return l.Do(ctx) }) }
	},
}

func runOdd(t *testing.T, try scope) {
	for name, make := range odd {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := &ledger{marks: new(guard.Memory)}
				s := l.subject()
				make(l, &s)
				require.NoError(t, simulations.Check(t, try(s)))
			})
		})
	}
}

// keeping never releases a lease before it expires.
type keeping struct{ token.Issuer }

func (keeping) Release(context.Context, token.Token) error { return errOutOfOrder }

// pooled needs a slot of the pool for each reply.
type pooled struct {
	token.Issuer
	pool chan struct{}
}

func (p pooled) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (grant token.Grant, err error) {
	err = with(ctx, p.pool, func() error {
		grant, err = p.Issuer.Acquire(ctx, resource, holder, ttl)
		return err
	})
	return grant, err
}

func (p pooled) Renew(ctx context.Context, tok token.Token, ttl time.Duration) (until time.Time, err error) {
	err = with(ctx, p.pool, func() error {
		until, err = p.Issuer.Renew(ctx, tok, ttl)
		return err
	})
	return until, err
}

func (p pooled) Release(ctx context.Context, tok token.Token) error {
	return with(ctx, p.pool, func() error { return p.Issuer.Release(ctx, tok) })
}

func with(ctx context.Context, pool chan struct{}, do func() error) error {
	select {
	case pool <- struct{}{}:
		defer func() { <-pool }()
		return do()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// mutants are guards, issuers and subjects with one mistake each, and the rule that the
// run must find broken.
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
			simulations.Failpoint(ctx, "checked")
			l.mu.Lock()
			defer l.mu.Unlock()
			l.units = seen + 1
			return nil
		}
	}},
	{"only the write is fenced, nothing is claimed", "once", func(_ *ledger, s *simulations.Subject) { // hazard G3
		s.Claim = nil
	}},
	{"a mark that refuses its own holder's second write", "spurious-refusal", func(l *ledger, s *simulations.Subject) { // hazard G4
		l.marks = &compare{admits: func(number, mark int64) bool { return number > mark }}
		s.Claim = nil
		s.Do = func(ctx context.Context) error {
			if err := l.Do(ctx); err != nil {
				return err
			}
			return l.write(ctx, l.read())
		}
	}},
	{"equality instead of order", "spurious-refusal", func(l *ledger, s *simulations.Subject) { // hazard G5
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
	{"an issuer that renews any token", "owner", func(_ *ledger, s *simulations.Subject) { // hazard R7
		s.Issuer = generous{s.Issuer}
	}},
	{"a renewal that takes the lock back", "owner", func(_ *ledger, s *simulations.Subject) { // hazard L4
		s.Issuer = reclaiming{s.Issuer}
	}},
	{"the token of the last grant", "order", func(l *ledger, s *simulations.Subject) { // hazard L2
		var last atomic.Pointer[token.Token]
		s.Claim = func(ctx context.Context, tok token.Token) error {
			last.Store(&tok)
			return l.marks.Admit(ctx, tok)
		}
		s.Do = func(ctx context.Context) error {
			seen := l.read()
			simulations.Failpoint(ctx, "computed")
			return l.write(token.NewContext(ctx, *last.Load()), seen+1)
		}
	}},
	{"a text comparison", "spurious-refusal", func(l *ledger, s *simulations.Subject) { // hazard G14
		l.marks = &compare{admits: func(number, mark int64) bool { return strconv.FormatInt(number, 10) >= strconv.FormatInt(mark, 10) }}
		s.Claim, s.Issuer = nil, counting{s.Issuer, new(atomic.Int64)}
		s.Do = func(ctx context.Context) error { return l.write(ctx, l.read()+1) }
	}},
	{"a refusal after the write", "trace", func(l *ledger, s *simulations.Subject) {
		s.Do = func(ctx context.Context) error {
			seen := l.read()
			simulations.Failpoint(ctx, "computed")
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
			synctest.Test(t, func(t *testing.T) {
				l := &ledger{marks: new(guard.Memory)}
				s := l.subject()
				mutant.mutate(l, &s)
				_ = breaks(t, s, mutant.rule)
			})
		})
	}
}

// A server may lose an answer by itself, of which the kit only hears the outcome. The second
// write breaks "trace" if another unit was refused: one more is counted than was accepted.
func TestARetryAfterAnUnknownOfTheServersOwnIsNamed(t *testing.T) {
	t.Parallel()
	for _, rule := range []string{"once", "trace"} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := &ledger{marks: new(guard.Memory)}
				s := l.subject()
				var refused atomic.Bool
				s.Do = func(ctx context.Context) error {
					ends := []failpoint.Step{failpoint.Unknown, failpoint.Applied}
					if rule == "trace" && !refused.Load() {
						ends = ends[1:]
					}
					for _, end := range ends {
						key := new(int)
						failpoint.At(ctx, failpoint.Begin, key)
						if err := l.write(ctx, l.read()+1); err != nil {
							refused.Store(true)
							failpoint.At(ctx, failpoint.Undone, key)
							return err
						}
						failpoint.At(ctx, failpoint.Admitted, key)
						failpoint.At(ctx, end, key)
					}
					return nil
				}
				require.ErrorContains(t, breaks(t, s, rule), "Likely: retry after unknown")
			})
		})
	}
}

func TestATwinThatStillRefusesIsVacuous(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{marks: &compare{admits: func(number, mark int64) bool { return number >= mark }}}
		s := some(l.subject())
		var verdict *simulations.Verdict
		require.ErrorAs(t, simulations.Check(t, s), &verdict)
		require.True(t, verdict.Vacuous(), "%v", verdict)
		s.Unguarded = func(ctx context.Context) error {
			seen := l.read()
			simulations.Failpoint(ctx, "computed")
			l.mu.Lock()
			defer l.mu.Unlock()
			l.units = seen + 1
			return nil
		}
		require.NoError(t, simulations.Check(t, s))
	})
}

// blind admits every token.
type blind struct{}

func (blind) Admit(context.Context, token.Token) error { return nil }

// compare is a guard with its own comparison.
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

// repeating always grants 7.
type repeating struct{ token.Issuer }

func (r repeating) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	grant, err := r.Issuer.Acquire(ctx, resource, holder, ttl)
	grant.Token.Number = 7
	return grant, err
}

// generous renews any token.
type generous struct{ token.Issuer }

func (generous) Renew(_ context.Context, _ token.Token, ttl time.Duration) (time.Time, error) {
	return time.Now().Add(ttl), nil
}

// reclaiming makes a renewal wait until it can acquire.
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
