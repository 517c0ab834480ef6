package pgtoken_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
)

// clients is how many share the four sessions of a pooler.
const clients = 12

// pooled has at most clients connections to a pooler.
func pooled(t *testing.T, url string, mode pgx.QueryExecMode) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	config.MaxConns, config.ConnConfig.DefaultQueryExecMode = clients, mode
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// hazard P8
func TestBehindAPooler(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run("one holder at a time, and numbers that rise, in mode "+mode.String(), func(t *testing.T) {
			t.Parallel()
			_, schema := testenv.Postgres(t)
			url := testenv.PgBouncer(t)
			iss := &pgtoken.Issuer{DB: pooled(t, url, mode), Schema: schema}
			var inside atomic.Int32
			var last int64 // the holder's
			var group sync.WaitGroup
			for c := range clients {
				group.Go(func() {
					for turn := 0; turn < 5 && !t.Failed(); {
						grant, err := iss.Acquire(t.Context(), resource, fmt.Sprintf("%d/%d", c, turn), long)
						if errors.Is(err, token.ErrHeld) {
							continue
						}
						if err != nil || inside.Add(1) != 1 || grant.Token.Number <= last {
							t.Errorf("acquire: %v after #%d, %d inside: %v", grant.Token, last, inside.Load(), err)
							return
						}
						last = grant.Token.Number
						_, renewed := iss.Renew(t.Context(), grant.Token, long)
						inside.Add(-1)
						if err := errors.Join(renewed, iss.Release(t.Context(), grant.Token)); err != nil {
							t.Error(err)
							return
						}
						turn++
					}
				})
			}
			group.Wait()
			require.NotZero(t, last)
			everyVerb(t, iss, func(_ string, call func()) { call() })
		})
	}
}

// hazard P8
func TestNamedStatementsBehindAPooler(t *testing.T) {
	t.Parallel()
	direct, schema := testenv.Postgres(t)
	url := testenv.PgBouncer(t)
	first := &pgtoken.Issuer{DB: pooled(t, url, pgx.QueryExecModeCacheStatement), Schema: schema}
	tok := acquire(t, first, "a")
	require.NoError(t, first.Release(t.Context(), tok))
	second := &pgtoken.Issuer{DB: pooled(t, url, pgx.QueryExecModeCacheStatement), Schema: schema}
	refused := func(iss *pgtoken.Issuer, code string) {
		t.Helper()
		_, err := iss.Acquire(t.Context(), resource, "b", long)
		var server *pgconn.PgError
		require.ErrorAs(t, err, &server)
		require.Equal(t, code, server.Code, "%v", err)
		require.Equal(t, tok.Number, query[int64](t, direct, "SELECT number FROM "+in(schema, "leases")), "nothing was granted")
	}
	refused(second, "42P05") // the name is taken in the session of the first one
	busy, err := pooled(t, url, pgx.QueryExecModeExec).Begin(t.Context())
	require.NoError(t, err)
	defer busy.Rollback(t.Context())
	refused(first, "26000") // that session is in use, and the next one has no such name
}
