package simulations_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
)

// fences are guards written by hand, or shipped in other software.
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

// raise claims with the token in ctx.
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

// This is a fence by hand. It claims first, and compares under a row lock that lasts as
// long as the transaction that writes.
func runForShare(t *testing.T, try scope) {
	f := newFences(t)
	require.NoError(t, simulations.Check(t, try(f.subject(f.forShare))))
}

// It lasts for as long as its holder sleeps, too. // hazard G8
func TestForShareByHandKeepsOthersWaiting(t *testing.T) {
	t.Parallel()
	f := newFences(t)
	s := f.subject(f.forShare)
	s.MaxBlocking = idle
	_ = breaks(t, s, "bounded-blocking", simulations.Impatient)
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

// As in OpenBao, the check is on one connection and the write on another.
func TestACheckOnAnotherConnectionIsCaught(t *testing.T) {
	t.Parallel()
	f := newFences(t)
	s := f.subject(func(ctx context.Context) error { // hazard G1
		if err := errors.Join(f.raise(ctx), f.check(ctx, f.pool, "")); err != nil {
			return err
		}
		return f.add(ctx, f.pool, f.pool)
	})
	_ = breaks(t, s, "order")
}

// As in pg_lease, the check is in the transaction, without a lock.
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
	_ = breaks(t, s, "once")
}

// breaks requires that s, as the changes leave it, breaks rule, and returns the verdict.
func breaks(t *testing.T, s simulations.Subject, rule string, changes ...scope) *simulations.Verdict {
	t.Helper()
	s = untilFound(s)
	for _, change := range changes {
		s = change(s)
	}
	err := simulations.Check(t, s)
	var verdict *simulations.Verdict
	require.ErrorAs(t, err, &verdict)
	require.True(t, verdict.Breaks(rule), "%v", err)
	t.Log(err)
	return verdict
}

// The claim is refused in place of the write, which is not traced.
func TestAnUntracedWriteIsNoPass(t *testing.T) {
	t.Parallel()
	u := newTable(t)
	plain, err := pgxpool.New(t.Context(), u.pool.Config().ConnString())
	require.NoError(t, err)
	t.Cleanup(plain.Close)
	iss := &pgtoken.Issuer{DB: plain, Schema: u.schema}
	locks := &lock.Locker{Issuer: iss, Claim: (&sqlguard.Guard{DB: plain, Schema: u.schema}).Admit}
	s := simulations.Subject{
		Issuer: iss, Resource: resource, Count: u.Count, Holds: true,
		Do: func(ctx context.Context) error {
			return locks.Hold(ctx, resource, func(ctx context.Context) error { return u.add(ctx, plain, plain) })
		},
	}
	require.ErrorContains(t, simulations.Check(t, some(s)), "no tracer saw Do write")
	s.Do = func(ctx context.Context) error {
		return locks.Hold(ctx, resource, func(ctx context.Context) error { return u.add(ctx, u.pool, u.pool) })
	}
	_ = breaks(t, s, "order") // the tracer observes it
}
