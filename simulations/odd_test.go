package simulations_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/token"
)

// odd are subjects that look strange, and are correct.
var odd = map[string]func(l *ledger, s *simulations.Subject){
	"a unit that nobody sees inside of": func(l *ledger, s *simulations.Subject) {
		s.Do = func(ctx context.Context) error { return l.write(ctx, l.read()+1) }
	},
	"leases as short as can be":  func(_ *ledger, s *simulations.Subject) { s.TTL = 20 * time.Millisecond },
	"leases that outlast a test": func(_ *ledger, s *simulations.Subject) { s.TTL = time.Hour },
	"an issuer that takes nothing back": func(_ *ledger, s *simulations.Subject) {
		s.Issuer = keeping{s.Issuer}
	},
	"an error that says nothing": func(l *ledger, s *simulations.Subject) {
		s.Do = func(ctx context.Context) error {
			if err := l.Do(ctx); err != nil {
				return fmt.Errorf("ledger: %v", err)
			}
			return nil
		}
	},
	"goroutines, a second lock, two writes, a far beginning": func(l *ledger, s *simulations.Subject) {
		l.units = 1 << 40
		locks := &token.Locker{Issuer: s.Issuer, Claim: l.marks.Admit}
		s.Do = func(ctx context.Context) error {
			return locks.HoldAll(ctx, []string{"ledger/b", resource}, func(ctx context.Context) error {
				var group sync.WaitGroup
				for range 3 {
					group.Go(func() { simulations.Point(ctx, "beside") })
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

func TestOddSubjectsAreNotAccused(t *testing.T) {
	t.Parallel()
	for name, make := range odd {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := &ledger{marks: new(guard.Memory)}
				s := l.subject()
				make(l, &s)
				require.NoError(t, simulations.Examine(t, s))
			})
		})
	}
}

// keeping gives nothing back before it has run out.
type keeping struct{ token.Issuer }

func (keeping) Release(context.Context, token.Token) error { return errOutOfOrder }

// pooled needs what is in the pool to answer.
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
