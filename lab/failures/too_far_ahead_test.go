package failures_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
	"github.com/fencepost/fencepost/token/redistoken"
)

// A locker acquires again after it has recovered the issuer, at most twice.
const atMost = 3

func TestAMarkAheadOfTheClockIsRecoveredOnce(t *testing.T) {
	t.Parallel()
	for name, iss := range sharedIssuers(t) {
		locker, asked := claiming(t, iss, time.Now().Add(time.Hour))
		require.NoError(t, locker.Hold(t.Context(), resource, func(context.Context) error { return nil }), name)
		require.LessOrEqual(t, len(asked.tokens), atMost, name)
		require.Equal(t, 1, asked.recoveryCount(), name)
		require.NoError(t, locker.Hold(t.Context(), resource, func(context.Context) error { return nil }), name)
		require.Equal(t, 1, asked.recoveryCount(), name)
	}
}

func TestAMarkTooFarAheadIsAnErrorWithoutALoop(t *testing.T) {
	t.Parallel()
	for name, iss := range sharedIssuers(t) {
		locker, asked := claiming(t, iss, time.Now().Add(48*time.Hour))
		err := locker.Hold(t.Context(), resource, func(context.Context) error {
			return errors.New("no holder may work under this mark")
		})
		require.ErrorIs(t, err, token.ErrTooFarAhead, name)
		require.ErrorIs(t, err, guard.ErrStale, name)
		require.LessOrEqual(t, len(asked.tokens), atMost, name)
		require.Zero(t, asked.recoveryCount(), name)
		require.Less(t, number(t, iss), clock(time.Now().Add(time.Hour)), "%s was recovered nevertheless", name)

		// The twin acquires until it is admitted.
		tries := 0
		for ; errors.Is(err, guard.ErrStale) && tries < 10*atMost; tries++ {
			number(t, iss)
			err = locker.Claim(t.Context(), asked.tokens[0])
		}
		require.Equal(t, 10*atMost, tries, "%s: a loop without a bound must spin", name)
	}
}

// The clock was ten days ahead, was corrected, and then the issuer forgot.
func TestAfterAClockThatWasAheadAForgetfulIssuerIsLockedOut(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	pool, schema := testenv.Postgres(t)
	g := &sqlguard.Guard{DB: pool, Schema: schema}
	locker := &lock.Locker{Issuer: closed(t, &redistoken.Issuer{Client: client, Prefix: prefix}), TTL: testTimeout, Claim: g.Admit}
	hold := func() (tok token.Token, err error) {
		err = locker.Hold(t.Context(), resource, func(ctx context.Context) error {
			tok, err = token.FromContext(ctx, resource)
			return err
		})
		return tok, err
	}
	_, err := hold()
	require.NoError(t, err)
	counters, err := client.Keys(t.Context(), prefix+":*:counter").Result()
	require.NoError(t, err)
	require.Len(t, counters, 1)
	// A clock that is ahead leaves its number in the counter.
	ahead := clock(time.Now().Add(10 * 24 * time.Hour))
	require.NoError(t, client.Set(t.Context(), counters[0], ahead, 0).Err())
	sleeper, err := hold()
	require.NoError(t, err)
	require.Greater(t, sleeper.Number, ahead)
	_, err = hold()
	require.NoError(t, err, "after the correction it mints above the mark while it remembers")

	require.NoError(t, client.Del(t.Context(), counters[0]).Err())
	for range 2 {
		_, err = hold()
		require.ErrorIs(t, err, guard.ErrStale)
		require.ErrorIs(t, err, token.ErrTooFarAhead)
	}
	require.Less(t, number(t, locker.Issuer), clock(time.Now().Add(time.Hour)), "it was recovered nevertheless")

	_, err = pool.Exec(t.Context(), "SELECT "+pgx.Identifier{schema, "reset"}.Sanitize()+"($1)", resource)
	require.NoError(t, err)
	fresh, err := hold()
	require.NoError(t, err)
	require.Less(t, fresh.Number, ahead)
	require.NoError(t, g.Admit(t.Context(), sleeper), "a holder that slept since is above the mark again: it must have been ended before the reset")
}

// claiming returns a locker whose resource has the mark of a clock at that time.
func claiming(t *testing.T, iss token.Issuer, then time.Time) (*lock.Locker, *grants) {
	t.Helper()
	var marks guard.Memory
	var asked grants
	mark := token.Token{Resource: resource, Number: clock(then), Holder: "other"}
	require.NoError(t, marks.Admit(t.Context(), mark))
	return &lock.Locker{Issuer: iss, TTL: testTimeout, Claim: marks.Admit, Hooks: asked.observer()}, &asked
}

func number(t *testing.T, iss token.Issuer) int64 {
	t.Helper()
	grant, err := iss.Acquire(t.Context(), resource, "onlooker", testTimeout)
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
	quorum.MaxTTL = testTimeout
	require.NoError(t, quorum.Bootstrap(t.Context()))
	return map[string]token.Issuer{
		"redisquorum": quorum,
		"redistoken":  closed(t, &redistoken.Issuer{Client: client, Prefix: prefix}),
		"pgtoken":     closed(t, &pgtoken.Issuer{DB: pool, Schema: schema}),
	}
}
