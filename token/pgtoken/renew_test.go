package pgtoken_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
)

func granted(t *testing.T, iss token.Issuer, resource string) token.Token {
	t.Helper()
	grant, err := iss.Acquire(t.Context(), resource, "a", long)
	require.NoError(t, err)
	return grant.Token
}

func TestManyRenewalsInOnePacket(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	var leases []token.Renewal
	for i := range 100 {
		leases = append(leases, token.Renewal{Token: granted(t, &pgtoken.Issuer{DB: pool, Schema: schema}, fmt.Sprintf("{\"'\\,} %d", i)), TTL: long})
	}
	leases[7].Token.Holder = "b"
	for mode, packets := range map[pgx.QueryExecMode]int64{
		pgx.QueryExecModeCacheStatement: 1, pgx.QueryExecModeCacheDescribe: 1, pgx.QueryExecModeDescribeExec: 2,
		pgx.QueryExecModeExec: 1, pgx.QueryExecModeSimpleProtocol: 1,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			var sent atomic.Int64
			iss := &pgtoken.Issuer{DB: counting(t, mode, &sent), Schema: schema}
			batch := slices.Clone(leases)
			iss.RenewAll(t.Context(), batch) // prepares the statements
			before, asked := sent.Load(), time.Now()
			iss.RenewAll(t.Context(), batch)
			require.Equal(t, packets, sent.Load()-before)
			for i, r := range batch {
				if i == 7 {
					require.ErrorIs(t, r.Err, token.ErrLost)
					continue
				}
				require.NoError(t, r.Err)
				require.False(t, r.Until.Before(asked.Add(long)))
				require.LessOrEqual(t, time.Until(r.Until), long)
			}
		})
	}
}

func TestRenewalsDoNotWaitForOneThatIsLocked(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	iss := &pgtoken.Issuer{DB: pool, Schema: schema}
	batch := []token.Renewal{
		{Token: granted(t, iss, "account/1"), TTL: long},
		{Token: granted(t, iss, resource), TTL: long},
		{Token: granted(t, iss, "account/3"), TTL: long},
		{Token: token.Token{Resource: "account/4"}, TTL: long},
	}
	const ends = "SELECT max(expires_at) FROM %s WHERE resource <> $1"
	before := pgtest.Query[time.Time](t, pool, fmt.Sprintf(ends, pgtest.In(schema, "leases")), resource)
	unlock := lockLease(t, pool, schema)
	done := make(chan struct{})
	go func() {
		defer close(done)
		iss.RenewAll(t.Context(), batch)
	}()
	pgtest.AwaitLockWaiters(t, pool, schema, 1) // the locked lease, by a statement of its own
	require.True(t, pgtest.Query[time.Time](t, pool, fmt.Sprintf(ends, pgtest.In(schema, "leases")), resource).After(before), "the others are renewed")
	unlock()
	<-done
	for _, r := range batch[:3] {
		require.NoError(t, r.Err)
		require.NotZero(t, r.Until)
	}
	require.ErrorIs(t, batch[3].Err, token.ErrInvalid)
}

// Two batches with the same leases in different orders never deadlock.
func TestRenewalsOfTheSameLeasesInAnyOrder(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	iss := &pgtoken.Issuer{DB: pool, Schema: schema}
	var forth, back []token.Renewal
	for i := range 50 {
		r := token.Renewal{Token: granted(t, iss, fmt.Sprint("account/", i)), TTL: long}
		forth, back = append(forth, r), append([]token.Renewal{r}, back...)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 20 {
			iss.RenewAll(t.Context(), back)
		}
	}()
	for range 20 {
		iss.RenewAll(t.Context(), forth)
		for _, r := range forth {
			require.NoError(t, r.Err)
		}
	}
	<-done
	for _, r := range back {
		require.NoError(t, r.Err)
	}
}
