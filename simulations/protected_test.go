package simulations_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token/redistoken"
)

// protected is a counter in a protected table.
func protected(t *testing.T, mode string) (u *table, fence *sqlguard.Guard) {
	t.Helper()
	u = newTable(t)
	_, err := u.pool.Exec(t.Context(), "SELECT "+u.schema+".protect($1, quote_literal($2), $3)", u.schema+".units", resource, mode)
	require.NoError(t, err)
	return u, &sqlguard.Guard{DB: u.pool, Schema: u.schema, Idle: idle}
}

func (t *table) protectedSubject(tb testing.TB, fence *sqlguard.Guard) simulations.Subject {
	client, prefix := testenv.Redis(tb)
	return simulations.Subject{
		Issuer: &redistoken.Issuer{Client: client, Prefix: prefix}, Resource: resource,
		Do: func(ctx context.Context) error {
			return fence.Update(ctx, resource, func(tx pgx.Tx) error { return t.add(ctx, tx, tx) })
		},
		Count: t.Count, Claim: fence.Admit, Mark: t.mark, Bound: idle,
	}
}

// A guard that observes does not get through a table that enforces: with the
// same code as its twin, the first of these runs is toothless.
//
// hazard G15
func TestRunOnAProtectedTable(t *testing.T) {
	t.Parallel()
	t.Run("that enforces, whose twin asks for a bypass by name", func(t *testing.T) {
		t.Parallel()
		u, fence := protected(t, "enforce")
		s := u.protectedSubject(t, fence)
		s.Mark = nil // which a twin of its own does not raise
		s.Unguarded = func(ctx context.Context) error {
			return pgx.BeginFunc(ctx, u.pool, func(tx pgx.Tx) error {
				if _, err := tx.Exec(ctx, "SELECT "+u.schema+".bypass($1, 'the twin of a simulation')", u.schema+".units"); err != nil {
					return err
				}
				return u.add(ctx, tx, tx)
			})
		}
		simulations.Run(t, s)
	})
	t.Run("that observes, whose twin is the same code", func(t *testing.T) {
		t.Parallel()
		u, fence := protected(t, "observe")
		simulations.Run(t, u.protectedSubject(t, fence))
	})
}

func TestExamineCodeThatForgotTheGuardOfAProtectedTable(t *testing.T) {
	t.Parallel()
	u, fence := protected(t, "enforce")
	s := u.protectedSubject(t, fence)
	s.Do = func(ctx context.Context) error { return u.add(ctx, u.pool, u.pool) }
	var refusal *pgconn.PgError
	require.ErrorAs(t, simulations.Examine(t, s), &refusal)
	require.Equal(t, "ZF003", refusal.Code)
	n, err := u.Count(t.Context())
	require.NoError(t, err)
	require.Zero(t, n)
}
