package pgtoken_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
)

func TestRaiseSparesTheHolderWhoAsksAgain(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	iss := &pgtoken.Issuer{DB: pool, Schema: schema}
	tok := acquire(t, iss, "a")
	seen := tok.Number + 1000 // at a guard, from another holder
	require.NoError(t, iss.Raise(t.Context(), resource, seen))
	require.ErrorIs(t, iss.Raise(t.Context(), resource, seen), token.ErrLost)
	require.Greater(t, acquire(t, iss, "a").Number, seen, "the very number would collide")
	require.ErrorIs(t, iss.Raise(t.Context(), "", 1), token.ErrInvalid)
}

func TestHealingLeavesTheSequence(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	iss := &pgtoken.Issuer{DB: pool, Schema: schema}
	numbers := in(schema, "numbers")
	draw := func() int64 { return query[int64](t, pool, "SELECT nextval($1::text::regclass)", numbers) }
	exec(t, pool, "SELECT setval($1::text::regclass, $2)", numbers, clock()+360_000_000)
	last := draw()
	require.NoError(t, iss.Raise(t.Context(), resource, last+100))
	require.Equal(t, last+1, draw())
	require.Greater(t, acquire(t, iss, "a").Number, last+100)

	t.Run("a healer that sets it repeats what was drawn meanwhile", func(t *testing.T) {
		read := draw() // what the healer believes
		drawn := map[int64]bool{}
		for range 60 {
			drawn[draw()] = true
		}
		exec(t, pool, "SELECT setval($1::text::regclass, $2)", numbers, read+50)
		require.True(t, drawn[draw()], "the number must have been drawn before")
	})
}
