package pgtoken_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token"
)

// hazard P3
func TestAdvisoryNumbersSurviveACrash(t *testing.T) {
	t.Parallel()
	spare := migratedSpare(t)
	for round := range 3 {
		name, naive := fmt.Sprintf("account/%d", round), fmt.Sprintf("naive_%d", round)
		sure := session(t, spare.URL(), "on")
		exec(t, sure, "CREATE SEQUENCE "+naive)
		// The row is ahead of the clock, so that the clock cannot help.
		exec(t, sure, "INSERT INTO fencepost.advisory VALUES ($1, $2, '', '0')", name, clock()+360_000_000)

		before := poolOf(t, spare.URL(), hasty)
		grant, err := advisory(t, before, "fencepost").Acquire(t.Context(), name, "before", long)
		require.NoError(t, err)
		drawn := query[int64](t, before, "SELECT nextval($1::text::regclass)", naive)
		spare.Crash()

		after := poolOf(t, spare.URL(), hasty)
		require.Equal(t, drawn, query[int64](t, after, "SELECT nextval($1::text::regclass)", naive),
			"the naive number must be issued again")
		iss := advisory(t, after, "fencepost")
		next, err := iss.Acquire(t.Context(), name, "after", long)
		require.NoError(t, err, "the lock has ended with its session")
		require.Greater(t, next.Token.Number, grant.Token.Number)
		require.NoError(t, iss.Release(t.Context(), next.Token))
	}
}

func TestAdvisoryRaise(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	iss := advisory(t, pool, schema)
	ahead := clock() + 360_000_000 // an hour
	require.NoError(t, iss.Raise(t.Context(), "never acquired", ahead))
	grant, err := iss.Acquire(t.Context(), "never acquired", "a", long)
	require.NoError(t, err)
	require.Equal(t, ahead+1, grant.Token.Number)
	require.NoError(t, iss.Release(t.Context(), grant.Token))

	tok := acquire(t, iss, "a")
	require.ErrorIs(t, iss.Raise(t.Context(), resource, tok.Number), token.ErrLost, "nothing was forgotten")
	require.NoError(t, iss.Raise(t.Context(), resource, ahead))
	require.ErrorIs(t, iss.Raise(t.Context(), resource, ahead), token.ErrLost)
	require.ErrorIs(t, iss.Raise(t.Context(), resource, clock()+token.Poisoned+6_000_000), token.ErrPoisoned)
	require.ErrorIs(t, iss.Raise(t.Context(), resource, token.MaxNumber), token.ErrPoisoned)
	require.ErrorIs(t, iss.Raise(t.Context(), "", 1), token.ErrInvalid)
	_, err = iss.Renew(t.Context(), tok, long)
	require.NoError(t, err, "the lease is as it was")
	require.NoError(t, iss.Release(t.Context(), tok))
	require.Greater(t, acquire(t, iss, "b").Number, ahead)
	require.NoError(t, iss.Close())
}
