package pgtoken_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
	"github.com/fencepost/fencepost/token/tokentest"
)

// contract tests the contract on one schema: each rule has resources of its own.
func contract(t *testing.T, mode pgx.QueryExecMode, set func(iss *pgtoken.Issuer)) {
	t.Parallel()
	_, schema := testenv.Postgres(t)
	pool := pgtest.Connect(t, func(config *pgxpool.Config) {
		config.MaxConns, config.ConnConfig.DefaultQueryExecMode = 32, mode
	})
	tokentest.TestIssuer(t, func(t *testing.T) token.Issuer {
		iss := closed(t, &pgtoken.Issuer{DB: pool, Schema: schema})
		set(iss)
		return &forgetful{iss, pool}
	})
}

// forgetful is an issuer whose server loses rows.
type forgetful struct {
	*pgtoken.Issuer
	pool *pgxpool.Pool
}

// Forget implements [tokentest.Forgetter].
func (f *forgetful) Forget(ctx context.Context, resource string) error {
	tag, err := f.pool.Exec(ctx, "DELETE FROM "+pgx.Identifier{f.Schema, "leases"}.Sanitize()+" WHERE resource = $1", resource)
	if err == nil && tag.RowsAffected() != 1 {
		err = fmt.Errorf("%d rows of %s", tag.RowsAffected(), resource)
	}
	return err
}

func TestIssuer(t *testing.T) { contract(t, pgx.QueryExecModeCacheStatement, func(*pgtoken.Issuer) {}) }

func TestStressIssuerBySimpleProtocol(t *testing.T) {
	contract(t, pgx.QueryExecModeSimpleProtocol, func(*pgtoken.Issuer) {})
}

func TestStressIssuerThatClaims(t *testing.T) {
	contract(t, pgx.QueryExecModeCacheStatement, func(iss *pgtoken.Issuer) { iss.Claims = true })
}

func TestStressIssuerThatPolls(t *testing.T) {
	contract(t, pgx.QueryExecModeCacheStatement, func(iss *pgtoken.Issuer) { iss.Poll = 10 * time.Millisecond })
}

func TestErrorsLeaveThePoolUsable(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	single := pgtest.Connect(t, pgtest.One)
	iss := &pgtoken.Issuer{DB: single, Schema: schema}
	pgtest.Cycle(t, iss, "a")
	process := func() int { return pgtest.Query[int](t, single, "SELECT pg_backend_pid()") }
	before := process()

	t.Run("after numbers are exhausted", func(t *testing.T) {
		full := "UPDATE " + pgtest.In(schema, "leases") + " SET number = $1"
		pgtest.Exec(t, pool, full, token.MaxNumber)
		for range 3 {
			_, err := iss.Acquire(t.Context(), resource, "b", long)
			require.ErrorIs(t, err, token.ErrExhausted)
			require.ErrorContains(t, err, "pgtoken: acquire account/42")
		}
		require.Equal(t, before, process(), "the connection is the same")
		pgtest.Exec(t, pool, full, 1)
		pgtest.Cycle(t, iss, "c")
	})
	t.Run("after a refusal and a loss", func(t *testing.T) {
		tok := pgtest.Acquire(t, iss, "d")
		_, err := iss.Acquire(t.Context(), resource, "e", long)
		require.ErrorIs(t, err, token.ErrHeld)
		require.NoError(t, iss.Release(t.Context(), tok))
		require.ErrorIs(t, iss.Release(t.Context(), tok), token.ErrLost)
		require.Equal(t, before, process(), "the connection is the same")
	})
	t.Run("after a context that ended", func(t *testing.T) {
		unlock := lockLease(t, pool, schema)
		cause := errors.New("the caller has gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		failed := pgtest.Later(t, func() error {
			_, err := iss.Acquire(ctx, resource, "f", long)
			return err
		})
		pgtest.AwaitLockWaiters(t, pool, schema, 1)
		cancel(cause)
		require.ErrorIs(t, failed(), cause)
		unlock()
		require.ErrorIs(t, iss.Release(ctx, token.Token{Resource: resource, Number: 1, Holder: "f"}), cause)
		// The server may have granted f's request, or may have detected that its client
		// has gone.
		require.NoError(t, iss.Release(t.Context(), pgtest.Acquire(t, iss, "f")))
	})
}

// hazard G13
func TestSchemaOfAnyName(t *testing.T) {
	t.Parallel()
	pool, _ := testenv.Postgres(t)
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	schema := `F"; DROP TABLE 'x' --{schema}$1 ` + time.Now().Format(time.RFC3339Nano)
	defer pgtest.Exec(t, pool, "DROP SCHEMA "+pgx.Identifier{schema}.Sanitize()+" CASCADE")
	require.NoError(t, migrations.Set{Schema: schema}.Up(t.Context(), db))
	iss := &pgtoken.Issuer{DB: pool, Schema: schema}
	first := pgtest.Cycle(t, iss, "a")
	require.Greater(t, pgtest.Cycle(t, iss, "b").Number, first.Number)
}

func TestWhatCannotWorkIsRefused(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	_, err := (&pgtoken.Issuer{}).Acquire(t.Context(), resource, "a", long)
	require.ErrorContains(t, err, "pgtoken: acquire account/42: Issuer has no DB")

	iss := &pgtoken.Issuer{DB: pool, Schema: schema}
	tok := pgtest.Acquire(t, iss, "a")
	for _, ttl := range []time.Duration{0, -time.Second, 999} {
		_, err = iss.Acquire(t.Context(), resource, "a", ttl)
		require.ErrorContains(t, err, "pgtoken: ttl")
		_, err = iss.Renew(t.Context(), tok, ttl)
		require.ErrorContains(t, err, "pgtoken: ttl")
	}
	_, err = iss.Acquire(t.Context(), "", "a", long)
	require.ErrorIs(t, err, token.ErrInvalid)
	_, err = iss.Acquire(t.Context(), resource, "a\x00", long)
	require.ErrorIs(t, err, token.ErrInvalid)

	var server *pgconn.PgError
	_, err = (&pgtoken.Issuer{DB: pool, Schema: schema + "_missing"}).Acquire(t.Context(), resource, "a", long)
	require.ErrorAs(t, err, &server)
	require.Equal(t, "3F000", server.Code, "the migrations have not run")
}

func TestHeldErrorHasHolderAndTime(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	iss := &pgtoken.Issuer{DB: pool, Schema: schema}
	const ttl = 100 * 24 * time.Hour // an interval with days
	_, err := iss.Acquire(t.Context(), resource, "a", ttl)
	require.NoError(t, err)
	_, err = iss.Acquire(t.Context(), resource, "b", long)
	var held *token.HeldError
	require.ErrorAs(t, err, &held)
	require.Equal(t, resource, held.Resource)
	require.Equal(t, "a", held.Holder)
	require.LessOrEqual(t, held.Remaining, ttl)
	require.Greater(t, held.Remaining, ttl-time.Hour)
}
