package process_test

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/token"
)

// openPostgres claims, reads, computes, and writes behind the fence.
func openPostgres(ctx context.Context, text string) (simulations.Subject, func() error, error) {
	c, l, s, end, err := servers(ctx, text)
	if err != nil {
		return s, nil, err
	}
	s.Claim, s.Mark, s.Bound = l.fence.Admit, l.mark, l.fence.Idle
	s.Do = func(ctx context.Context) error { return l.add(ctx, c.Work) }
	return s, end, nil
}

// openReentrant takes the lock itself, as programs do, and claims for itself.
func openReentrant(ctx context.Context, text string) (simulations.Subject, func() error, error) {
	_, l, s, end, err := servers(ctx, text)
	if err != nil {
		return s, nil, err
	}
	locks := &token.Locker{Issuer: s.Issuer, Claim: l.fence.Admit}
	s.Do = func(ctx context.Context) error {
		return locks.Hold(ctx, resource, func(ctx context.Context) error { return l.add(ctx, 0) })
	}
	return s, end, nil
}

func (l *ledger) add(ctx context.Context, work time.Duration) error {
	units, err := l.Count(ctx)
	if err != nil {
		return err
	}
	time.Sleep(work)
	simulations.Point(ctx, computed)
	return l.fence.Update(ctx, resource, func(tx pgx.Tx) error {
		simulations.Point(ctx, "in the transaction")
		if _, err := tx.Exec(ctx, l.writes, resource, units+1); err != nil {
			return err
		}
		simulations.Point(ctx, "written")
		return nil
	})
}

// openLockOnly has no guard: it holds the lock, so why not.
func openLockOnly(ctx context.Context, text string) (simulations.Subject, func() error, error) {
	_, l, s, end, err := servers(ctx, text)
	s.Do = func(ctx context.Context) error { return l.naive(ctx, nil) }
	s.Unguarded = s.Do
	return s, end, err
}

// openCheckThenWrite has its token admitted, and writes after that.
func openCheckThenWrite(ctx context.Context, text string) (simulations.Subject, func() error, error) {
	_, l, s, end, err := servers(ctx, text)
	s.Do = func(ctx context.Context) error { return l.naive(ctx, l.fence) }
	s.Unguarded = func(ctx context.Context) error { return l.naive(ctx, nil) }
	return s, end, err
}

func (l *ledger) naive(ctx context.Context, fence guard.Store) error {
	units, err := l.Count(ctx)
	if err != nil {
		return err
	}
	if fence != nil {
		tok, err := token.FromContext(ctx, resource)
		if err != nil {
			return err
		}
		if err := fence.Admit(ctx, tok); err != nil {
			return err
		}
	}
	simulations.Point(ctx, computed)
	simulations.Point(ctx, "begin") // no tracer tells of it
	_, err = l.pool.Exec(ctx, l.writes, resource, units+1)
	return err
}
