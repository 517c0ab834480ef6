package pgtoken_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
	"github.com/fencepost/fencepost/token/tokentest"
)

func TestAdvisory(t *testing.T) {
	t.Parallel()
	_, schema := testenv.Postgres(t)
	pool := connect(t, func(config *pgxpool.Config) { config.MaxConns, config.MinConns = 96, 48 })
	t.Run("keeps the contract", func(t *testing.T) {
		tokentest.TestIssuer(t, func(t *testing.T) token.Issuer {
			return advisory(t, pool, schema)
		})
	})
	require.Eventually(t, func() bool { return pool.Stat().AcquiredConns() == 0 }, time.Minute, time.Millisecond,
		"every connection was given back")
}

func TestAdvisoryBySimpleProtocol(t *testing.T) {
	t.Parallel()
	_, schema := testenv.Postgres(t)
	pool := connect(t, func(config *pgxpool.Config) {
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	})
	iss := advisory(t, pool, schema)
	tok := acquire(t, iss, "a")
	waiting := standInLine(t, iss, "b", long)
	_, err := iss.Renew(t.Context(), tok, long)
	require.NoError(t, err)
	require.NoError(t, iss.Release(t.Context(), tok))
	b := <-waiting
	require.NoError(t, b.err)
	require.Greater(t, b.grant.Token.Number, tok.Number)
	require.NoError(t, iss.Release(t.Context(), b.grant.Token))
}

func TestAdvisoryReturnsTheConnectionAsItWas(t *testing.T) {
	t.Parallel()
	_, schema := testenv.Postgres(t)
	pool := connect(t, func(config *pgxpool.Config) {
		one(config)
		config.ConnConfig.RuntimeParams["idle_session_timeout"] = "10min"
		config.ConnConfig.RuntimeParams["statement_timeout"] = "5min"
	})
	state := func() string {
		return query[string](t, pool, "SELECT concat_ws(' ', pg_backend_pid(), current_setting('idle_session_timeout'),"+
			" current_setting('statement_timeout'), current_setting('client_connection_check_interval'),"+
			" (SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'))")
	}
	before := state()
	require.Contains(t, before, " 10min 5min ")
	iss := advisory(t, pool, schema)
	cycle(t, iss, "a")
	require.Equal(t, before, state())
	grant, err := iss.Wait(t.Context(), resource, "b", long)
	require.NoError(t, err)
	require.NoError(t, iss.Release(t.Context(), grant.Token))
	require.Equal(t, before, state())
}

func TestAdvisoryRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	tok := token.Token{Resource: resource, Number: 1, Holder: "a"}
	none := new(pgtoken.Advisory)
	_, err := none.Acquire(t.Context(), resource, "a", long)
	require.EqualError(t, err, "pgtoken: Advisory has no Pool")
	require.EqualError(t, none.Raise(t.Context(), resource, 1), "pgtoken: Advisory has no Pool")
	require.ErrorIs(t, none.Release(t.Context(), tok), token.ErrLost)

	iss := advisory(t, pool, schema)
	for _, ttl := range []time.Duration{0, -time.Second, 999, 25 * 24 * time.Hour} {
		_, err = iss.Acquire(t.Context(), resource, "a", ttl)
		require.ErrorContains(t, err, "pgtoken: ttl")
		_, err = iss.Renew(t.Context(), tok, ttl)
		require.ErrorContains(t, err, "pgtoken: ttl")
	}
	_, err = (&pgtoken.Advisory{Pool: pool, Schema: schema + "_missing"}).Acquire(t.Context(), resource, "a", long)
	require.ErrorContains(t, err, "pgtoken: acquire account/42: ")
}
