package pgadvisory_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/contrib/pgadvisory"
	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/tokentest"
)

func TestIssuer(t *testing.T) {
	t.Parallel()
	_, schema := testenv.Postgres(t)
	pool := pgtest.Connect(t, func(config *pgxpool.Config) { config.MaxConns = 96 })
	t.Run("keeps the contract", func(t *testing.T) {
		tokentest.TestIssuer(t, func(t *testing.T) token.Issuer {
			return issuer(t, pool, schema)
		})
	})
	pgtest.Await(t, func() bool { return pool.Stat().AcquiredConns() == 0 }) // all were returned
}

func TestIssuerBySimpleProtocol(t *testing.T) {
	t.Parallel()
	_, schema := testenv.Postgres(t)
	pool := pgtest.Connect(t, func(config *pgxpool.Config) {
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	})
	iss := issuer(t, pool, schema)
	tok := pgtest.Acquire(t, iss, "a")
	waiting := enqueue(t, iss, "b", long)
	_, err := iss.Renew(t.Context(), tok, long)
	require.NoError(t, err)
	require.NoError(t, iss.Release(t.Context(), tok))
	b := <-waiting
	require.NoError(t, b.Err)
	require.Greater(t, b.Grant.Token.Number, tok.Number)
	require.NoError(t, iss.Release(t.Context(), b.Grant.Token))
}

func TestConnectionIsReturnedAsItWas(t *testing.T) {
	t.Parallel()
	_, schema := testenv.Postgres(t)
	pool := pgtest.Connect(t, func(config *pgxpool.Config) {
		pgtest.One(config)
		config.ConnConfig.RuntimeParams["idle_session_timeout"] = "10min"
		config.ConnConfig.RuntimeParams["statement_timeout"] = "5min"
	})
	state := func() string {
		return pgtest.Query[string](t, pool, "SELECT concat_ws(' ', pg_backend_pid(), current_setting('idle_session_timeout'),"+
			" current_setting('statement_timeout'), current_setting('client_connection_check_interval'),"+
			" (SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'))")
	}
	before := state()
	require.Contains(t, before, " 10min 5min ")
	iss := issuer(t, pool, schema)
	pgtest.Cycle(t, iss, "a")
	require.Equal(t, before, state())
	grant, err := iss.Wait(t.Context(), resource, "b", long)
	require.NoError(t, err)
	require.NoError(t, iss.Release(t.Context(), grant.Token))
	require.Equal(t, before, state())
}

func TestWhatCannotWorkIsRefused(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	tok := token.Token{Resource: resource, Number: 1, Holder: "a"}
	none := new(pgadvisory.Issuer)
	_, err := none.Acquire(t.Context(), resource, "a", long)
	require.EqualError(t, err, "pgadvisory: Issuer has no Pool")
	require.EqualError(t, none.Recover(t.Context(), resource, 1), "pgadvisory: Issuer has no Pool")
	require.ErrorIs(t, none.Release(t.Context(), tok), token.ErrLost)

	iss := issuer(t, pool, schema)
	for _, ttl := range []time.Duration{0, -time.Second, 999, 25 * 24 * time.Hour} {
		_, err = iss.Acquire(t.Context(), resource, "a", ttl)
		require.ErrorContains(t, err, "pgadvisory: ttl")
		_, err = iss.Renew(t.Context(), tok, ttl)
		require.ErrorContains(t, err, "pgadvisory: ttl")
	}
	_, err = (&pgadvisory.Issuer{Pool: pool, Schema: schema + "_missing"}).Acquire(t.Context(), resource, "a", long)
	require.ErrorContains(t, err, "pgadvisory: acquire account/42: ")
}

// hazard P3
func TestStressNumbersSurviveACrash(t *testing.T) {
	t.Parallel()
	spare := testenv.SparePostgres(t)
	testenv.Migrate(t, spare.URL())
	sure := pgtest.Pool(t, spare.URL(), durable)
	pgtest.Exec(t, sure, "CREATE SEQUENCE naive")
	// The row is ahead of the clock, so that the clock has no effect.
	pgtest.Exec(t, sure, "INSERT INTO fencepost.advisory VALUES ($1, $2, '', '0')", resource, pgtest.Clock()+360_000_000)

	before := pgtest.Pool(t, spare.URL(), hasty)
	grant, err := issuer(t, before, "fencepost").Acquire(t.Context(), resource, "before", long)
	require.NoError(t, err)
	drawn := pgtest.Query[int64](t, before, "SELECT nextval('naive')")
	spare.Crash()

	after := pgtest.Pool(t, spare.URL(), hasty)
	require.Equal(t, drawn, pgtest.Query[int64](t, after, "SELECT nextval('naive')"),
		"the naive number must be issued again")
	iss := issuer(t, after, "fencepost")
	next, err := iss.Acquire(t.Context(), resource, "after", long)
	require.NoError(t, err, "the lock has ended with its session")
	require.Greater(t, next.Token.Number, grant.Token.Number)
	require.NoError(t, iss.Release(t.Context(), next.Token))
}

func TestRecover(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	iss := issuer(t, pool, schema)
	ahead := pgtest.Clock() + 360_000_000 // an hour
	require.NoError(t, iss.Recover(t.Context(), "never acquired", ahead))
	grant, err := iss.Acquire(t.Context(), "never acquired", "a", long)
	require.NoError(t, err)
	require.Equal(t, ahead+1, grant.Token.Number)
	require.NoError(t, iss.Release(t.Context(), grant.Token))

	tok := pgtest.Acquire(t, iss, "a")
	require.ErrorIs(t, iss.Recover(t.Context(), resource, tok.Number), token.ErrLost, "nothing was forgotten")
	require.NoError(t, iss.Recover(t.Context(), resource, ahead))
	require.ErrorIs(t, iss.Recover(t.Context(), resource, ahead), token.ErrLost)
	require.ErrorIs(t, iss.Recover(t.Context(), resource, pgtest.Clock()+token.MaxAhead+6_000_000), token.ErrTooFarAhead)
	require.ErrorIs(t, iss.Recover(t.Context(), resource, token.MaxNumber), token.ErrTooFarAhead)
	require.ErrorIs(t, iss.Recover(t.Context(), "", 1), token.ErrInvalid)
	_, err = iss.Renew(t.Context(), tok, long)
	require.NoError(t, err, "the lease is as it was")
	require.NoError(t, iss.Release(t.Context(), tok))
	require.Greater(t, pgtest.Acquire(t, iss, "b").Number, ahead)
	require.NoError(t, iss.Close())
}

func TestAStandbyIsAnOutage(t *testing.T) {
	t.Parallel()
	primary := testenv.OwnPostgres(t)
	testenv.Migrate(t, primary.URL())
	standby := primary.Standby()
	primary.CaughtUp()
	iss := issuer(t, pgtest.Pool(t, standby.URL(), nil), "fencepost")
	_, err := iss.Wait(t.Context(), resource, "a", long)
	require.ErrorIs(t, err, token.ErrUnreachable)
	require.ErrorContains(t, err, "the request was sent to a standby")
	standby.Promote()
	require.NoError(t, iss.Release(t.Context(), pgtest.Granted(t, pgtest.Go(func() (token.Grant, error) {
		return iss.Wait(t.Context(), resource, "b", long)
	}))))
}
