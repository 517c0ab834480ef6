package simulations_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
)

// fences are guards that people write by hand, and that others have shipped.
type fences struct {
	*table
	mark string
}

func newFences(t *testing.T) *fences {
	t.Helper()
	u := newTable(t)
	name := pgx.Identifier{u.schema, "fence"}.Sanitize()
	_, err := u.pool.Exec(t.Context(), "CREATE TABLE "+name+" (last bigint NOT NULL); INSERT INTO "+name+" VALUES (0)")
	require.NoError(t, err)
	return &fences{u, name}
}

func (f *fences) subject(do func(context.Context) error) simulations.Subject {
	return simulations.Subject{
		Issuer: &pgtoken.Issuer{DB: f.pool, Schema: f.schema}, Resource: resource,
		Do: do, Count: f.Count, Unguarded: func(ctx context.Context) error { return f.add(ctx, f.pool, f.pool) },
	}
}

// raise is the claim of the token that ctx carries.
func (f *fences) raise(ctx context.Context) error {
	tok, err := token.FromContext(ctx, resource)
	if err == nil {
		_, err = f.pool.Exec(ctx, "UPDATE "+f.mark+" SET last = $1 WHERE last < $1", tok.Number)
	}
	return err
}

// check compares the token with the mark. lock is the row lock.
func (f *fences) check(ctx context.Context, q querier, lock string) error {
	tok, err := token.FromContext(ctx, resource)
	if err != nil {
		return err
	}
	var last int64
	if err := q.QueryRow(ctx, "SELECT last FROM "+f.mark+lock).Scan(&last); err != nil {
		return err
	}
	if last > tok.Number {
		return guard.ErrStale
	}
	return nil
}

// A fence by hand: claimed first, and checked under a row lock that lasts as
// long as the transaction that writes.
func TestForShareByHandSurvives(t *testing.T) {
	t.Parallel()
	f := newFences(t)
	require.NoError(t, simulations.Examine(t, f.subject(f.forShare)))
}

// It lasts for as long as its holder sleeps, too. // hazard G8
func TestForShareByHandKeepsOthersWaiting(t *testing.T) {
	t.Parallel()
	f := newFences(t)
	s := f.subject(f.forShare)
	s.Bound = idle
	breaks(t, s, "bound")
}

func (f *fences) forShare(ctx context.Context) error {
	if err := f.raise(ctx); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, f.pool, func(tx pgx.Tx) error {
		if err := f.check(ctx, tx, " FOR SHARE"); err != nil {
			return err
		}
		return f.add(ctx, tx, tx)
	})
}

// OpenBao's shape: the check is on one connection, the write on another.
func TestACheckOnAnotherConnectionIsCaught(t *testing.T) {
	t.Parallel()
	f := newFences(t)
	s := f.subject(func(ctx context.Context) error { // hazard G1
		if err := errors.Join(f.raise(ctx), f.check(ctx, f.pool, "")); err != nil {
			return err
		}
		return f.add(ctx, f.pool, f.pool)
	})
	breaks(t, s, "order")
}

// pg_lease's shape: the check is in the transaction, and locks nothing.
func TestACheckWithoutARowLockIsCaught(t *testing.T) {
	t.Parallel()
	f := newFences(t)
	s := f.subject(func(ctx context.Context) error { // hazard G1
		if err := f.raise(ctx); err != nil {
			return err
		}
		return pgx.BeginFunc(ctx, f.pool, func(tx pgx.Tx) error {
			if err := f.check(ctx, tx, ""); err != nil {
				return err
			}
			return f.add(ctx, tx, tx)
		})
	})
	breaks(t, s, "once")
}

// breaks asserts that s breaks rule.
func breaks(t *testing.T, s simulations.Subject, rule string) {
	t.Helper()
	err := simulations.Examine(t, s)
	var verdict *simulations.Verdict
	require.ErrorAs(t, err, &verdict)
	require.True(t, verdict.Breaks(rule), "%v", err)
	t.Log(err)
}

// The claim is refused in place of the write, which nobody looks at.
func TestAWriteThatNobodySeesIsNoPass(t *testing.T) {
	t.Parallel()
	u := newTable(t)
	plain, err := pgxpool.New(t.Context(), u.pool.Config().ConnString())
	require.NoError(t, err)
	t.Cleanup(plain.Close)
	iss := &pgtoken.Issuer{DB: plain, Schema: u.schema}
	locks := &token.Locker{Issuer: iss, Claim: (&sqlguard.Guard{DB: plain, Schema: u.schema}).Admit}
	s := simulations.Subject{
		Issuer: iss, Resource: resource, Count: u.Count,
		Do: func(ctx context.Context) error {
			return locks.Hold(ctx, resource, func(ctx context.Context) error { return u.add(ctx, plain, plain) })
		},
	}
	require.ErrorContains(t, simulations.Examine(t, s), "nobody saw Do write")
	s.Do = func(ctx context.Context) error {
		return locks.Hold(ctx, resource, func(ctx context.Context) error { return u.add(ctx, u.pool, u.pool) })
	}
	breaks(t, s, "order") // by the tracer it is seen, and caught
}
