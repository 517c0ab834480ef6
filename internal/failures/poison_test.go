package failures_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
	"github.com/fencepost/fencepost/token/redistoken"
)

// A locker asks once more when it has healed the issuer, and once more again.
const atMost = 3

func TestAMarkAheadOfTheClockIsHealedOnce(t *testing.T) {
	t.Parallel()
	for name, iss := range sharedIssuers(t) {
		locker, asked := claiming(t, iss, time.Now().Add(time.Hour))
		require.NoError(t, locker.Hold(t.Context(), resource, func(context.Context) error { return nil }), name)
		require.LessOrEqual(t, len(asked.tokens), atMost, name)
		require.Equal(t, 1, asked.healings(), name)
		require.NoError(t, locker.Hold(t.Context(), resource, func(context.Context) error { return nil }), name)
		require.Equal(t, 1, asked.healings(), name)
	}
}

func TestAMarkThatNobodyCanHaveGivenIsAnErrorAndNoLoop(t *testing.T) {
	t.Parallel()
	for name, iss := range sharedIssuers(t) {
		locker, asked := claiming(t, iss, time.Now().Add(48*time.Hour))
		err := locker.Hold(t.Context(), resource, func(context.Context) error {
			return errors.New("nobody may work under this mark")
		})
		require.ErrorIs(t, err, token.ErrPoisoned, name)
		require.ErrorIs(t, err, guard.ErrStale, name)
		require.LessOrEqual(t, len(asked.tokens), atMost, name)
		require.Zero(t, asked.healings(), name)
		require.Less(t, number(t, iss), clock(time.Now().Add(time.Hour)), "%s was raised all the same", name)

		// The twin asks until it is admitted.
		tries := 0
		for ; errors.Is(err, guard.ErrStale) && tries < 10*atMost; tries++ {
			number(t, iss)
			err = locker.Claim(t.Context(), asked.tokens[0])
		}
		require.Equal(t, 10*atMost, tries, "%s: a loop without a bound must spin", name)
	}
}

// claiming is a locker whose resource has the mark of a clock that says then.
func claiming(t *testing.T, iss token.Issuer, then time.Time) (*token.Locker, *grants) {
	t.Helper()
	var marks guard.Memory
	var asked grants
	mark := token.Token{Resource: resource, Number: clock(then), Holder: "somebody"}
	require.NoError(t, marks.Admit(t.Context(), mark))
	return &token.Locker{Issuer: iss, TTL: patience, Claim: marks.Admit, Observer: asked.observer()}, &asked
}

func number(t *testing.T, iss token.Issuer) int64 {
	t.Helper()
	grant, err := iss.Acquire(t.Context(), resource, "onlooker", patience)
	require.NoError(t, err)
	require.NoError(t, iss.Release(t.Context(), grant.Token))
	return grant.Token.Number
}

func clock(at time.Time) int64 { return at.UnixMicro() / 10 }

func sharedIssuers(t *testing.T) map[string]token.Issuer {
	t.Helper()
	client, prefix := testenv.Redis(t)
	pool, schema := testenv.Postgres(t)
	quorum := newNodes(t, 3).issuer(t)
	quorum.MaxTTL = patience
	require.NoError(t, quorum.Bootstrap(t.Context()))
	return map[string]token.Issuer{
		"redisquorum":      quorum,
		"redistoken":       closed(t, &redistoken.Issuer{Client: client, Prefix: prefix}),
		"pgtoken":          closed(t, &pgtoken.Issuer{DB: pool, Schema: schema}),
		"pgtoken.Advisory": closed(t, &pgtoken.Advisory{Pool: pool, Schema: schema}),
	}
}
