package pgtoken_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
)

// locks returns the locks of iss whose names begin with prefix, in their order.
func locks(t *testing.T, iss *pgtoken.Issuer, prefix string) (found []token.State) {
	t.Helper()
	for s, err := range iss.Locks(t.Context(), prefix) {
		require.NoError(t, err)
		found = append(found, s)
	}
	return found
}

func TestInspectReadsOnlyAndWaitsForNoLock(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	iss := closed(t, &pgtoken.Issuer{DB: pool, Schema: schema})
	tok := pgtest.Acquire(t, iss, "holder")
	want := token.State{Resource: resource, Number: tok.Number, Holder: "holder"}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	for n, name := range []string{"zoe", "adam", "mia"} {
		wait(ctx, iss, name, long)
		awaitQueue(t, pool, schema, n+1, "true")
		want.Waiters = append(want.Waiters, name)
	}
	unlock := begin(t, pool, "LOCK "+pgtest.In(schema, "leases")+", "+pgtest.In(schema, "waiters")+" IN EXCLUSIVE MODE")

	// The rights that docs/locks.md names.
	role := schema + "_operator"
	pgtest.Exec(t, pool, "CREATE ROLE "+role)
	defer pgtest.Exec(t, pool, "DROP ROLE "+role)
	defer pgtest.Exec(t, pool, "DROP OWNED BY "+role)
	pgtest.Exec(t, pool, "GRANT USAGE ON SCHEMA "+schema+" TO "+role)
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		operator := &pgtoken.Issuer{Schema: schema, DB: pgtest.Connect(t, func(config *pgxpool.Config) {
			config.ConnConfig.RuntimeParams["role"], config.ConnConfig.DefaultQueryExecMode = role, mode
		})}
		if mode == pgx.QueryExecModeCacheStatement {
			_, err := operator.Inspect(t.Context(), resource)
			require.ErrorContains(t, err, "pgtoken: inspect account/42: ")
			require.ErrorContains(t, err, "42501")
			for _, err := range operator.Locks(t.Context(), "") {
				require.ErrorContains(t, err, "pgtoken: locks: ")
			}
			unlock()
			pgtest.Exec(t, pool, "GRANT SELECT ON "+pgtest.In(schema, "leases")+", "+pgtest.In(schema, "waiters")+" TO "+role)
			unlock = begin(t, pool, "LOCK "+pgtest.In(schema, "leases")+", "+pgtest.In(schema, "waiters")+" IN EXCLUSIVE MODE")
		}
		state, err := operator.Inspect(t.Context(), resource)
		require.NoError(t, err)
		want.Remaining = state.Remaining
		require.Equal(t, want, state)
		require.Positive(t, state.Remaining)
		require.LessOrEqual(t, state.Remaining, long)
		all := locks(t, operator, "account")
		require.Len(t, all, 1)
		require.Equal(t, want.Waiters, all[0].Waiters)
	}
	unlock()
}

func TestLocksOfAResourceThatIsOnlyWaitedFor(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	pgtest.Exec(t, pool, "INSERT INTO "+pgtest.In(schema, "leases")+
		" VALUES ($1, 7, 'dead', now() - interval '1 hour', true), ('left', 8, '', '-infinity', true)", resource)
	pgtest.Exec(t, pool, "INSERT INTO "+pgtest.In(schema, "waiters")+" VALUES ($1, 'waiter', 1, 0, '1 hour', false, now(), '1 hour')", resource)
	found := locks(t, &pgtoken.Issuer{DB: pool, Schema: schema}, "")
	require.Equal(t, []token.State{{Resource: resource, Number: 7, Waiters: []string{"waiter"}}}, found)
}

// A page has a thousand locks. The caller uses the only connection between two of them.
func TestLocksOfManyPages(t *testing.T) {
	t.Parallel()
	_, schema := testenv.Postgres(t)
	pool := pgtest.Connect(t, pgtest.One)
	iss := &pgtoken.Issuer{DB: pool, Schema: schema}
	for _, many := range []int{1000, 2500} {
		pgtest.Exec(t, pool, "INSERT INTO "+pgtest.In(schema, "leases")+
			" SELECT 'many%/' || n, n, 'holder', now() + interval '1 hour' FROM generate_series(1, $1) n ON CONFLICT DO NOTHING", many)
		seen := map[string]bool{}
		for s, err := range iss.Locks(t.Context(), "many%/") {
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint("many%/", s.Number), s.Resource)
			require.False(t, seen[s.Resource], "twice: %s", s.Resource)
			seen[s.Resource] = true
			if len(seen)%1000 == 1 {
				require.Equal(t, 1, pgtest.Query[int](t, pool, "SELECT 1"))
			}
		}
		require.Len(t, seen, many)
	}
	for _, err := range iss.Locks(t.Context(), "") { // a caller that has seen enough
		require.NoError(t, err)
		break
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(context.DeadlineExceeded)
	_, err := iss.Inspect(ctx, resource)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestAStandbyIsInspected(t *testing.T) {
	t.Parallel()
	primary := testenv.OwnPostgres(t)
	testenv.Migrate(t, primary.URL())
	standby := primary.Standby()
	tok := pgtest.Acquire(t, &pgtoken.Issuer{DB: pgtest.Pool(t, primary.URL(), nil)}, "holder")
	primary.CaughtUp()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeDescribeExec} {
		iss := &pgtoken.Issuer{DB: pgtest.Pool(t, standby.URL(), func(config *pgxpool.Config) {
			config.ConnConfig.DefaultQueryExecMode = mode
		})}
		state, err := iss.Inspect(t.Context(), resource)
		require.NoError(t, err)
		require.Equal(t, tok, token.Token{Resource: state.Resource, Number: state.Number, Holder: state.Holder})
		require.Len(t, locks(t, iss, ""), 1)
	}
	standby.Kill()
	_, err := (&pgtoken.Issuer{DB: pgtest.Pool(t, standby.URL(), nil)}).Inspect(t.Context(), resource)
	require.ErrorIs(t, err, token.ErrUnreachable)
}

// hazard P8
func TestInspectBehindAPooler(t *testing.T) {
	t.Parallel()
	_, schema := testenv.Postgres(t)
	url := testenv.PgBouncer(t)
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		iss := &pgtoken.Issuer{DB: pooled(t, url, mode), Schema: schema}
		tok := pgtest.Acquire(t, iss, "holder")
		results := make(chan error, clients)
		for range clients {
			go func() {
				state, err := iss.Inspect(t.Context(), resource)
				if err == nil && state.Holder != "holder" {
					err = fmt.Errorf("%s is %+v", mode, state)
				}
				results <- err
			}()
		}
		for range clients {
			require.NoError(t, <-results)
		}
		require.Len(t, locks(t, iss, ""), 1)
		require.NoError(t, iss.Release(t.Context(), tok))
		require.Empty(t, locks(t, iss, ""))
	}
}

// hazard G13
func TestInspectInASchemaOfAnyName(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	odd := schema + ` {schema}"$1`
	pgtest.Exec(t, pool, "ALTER SCHEMA "+schema+" RENAME TO "+pgx.Identifier{odd}.Sanitize())
	defer pgtest.Exec(t, pool, "ALTER SCHEMA "+pgx.Identifier{odd}.Sanitize()+" RENAME TO "+schema)
	state, err := (&pgtoken.Issuer{DB: pool, Schema: odd}).Inspect(t.Context(), resource)
	require.NoError(t, err)
	require.Equal(t, token.State{Resource: resource}, state)
}

// A lease that is longer than a [time.Duration], acquired by hand, does not hide the others.
func TestInspectOfALeaseThatNeverEnds(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	iss := closed(t, &pgtoken.Issuer{DB: pool, Schema: schema})
	pgtest.Acquire(t, iss, "holder")
	pgtest.Exec(t, pool, "SELECT "+pgtest.In(schema, "acquire")+"('a', 'holder', '300 years'), "+pgtest.In(schema, "acquire")+"('b', 'holder', '1 year')")
	pgtest.Exec(t, pool, "UPDATE "+pgtest.In(schema, "leases")+" SET expires_at = 'infinity' WHERE resource = 'b'")
	found := locks(t, iss, "")
	require.Len(t, found, 3)
	for _, s := range []token.State{found[0], found[2]} {
		require.Equal(t, "holder", s.Holder)
		require.Greater(t, s.Remaining, 289*365*24*time.Hour)
	}
}
