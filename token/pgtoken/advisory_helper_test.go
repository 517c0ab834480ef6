package pgtoken_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/token/pgtoken"
)

// tryLock is followed by advisoryKey. It goes past everything of ours.
const tryLock = "SELECT pg_try_advisory_lock((k >> 32)::integer, k::bit(32)::integer) FROM "

func advisoryKey(schema string) string { return in(schema, "advisory_key") + "($1) k" }

// advisory is closed before its pool.
func advisory(t *testing.T, pool *pgxpool.Pool, schema string) *pgtoken.Advisory {
	iss := &pgtoken.Advisory{Pool: pool, Schema: schema}
	t.Cleanup(func() { require.NoError(t, iss.Close()) })
	return iss
}

// standInLine returns when holder waits for resource.
func standInLine(t *testing.T, iss *pgtoken.Advisory, holder string, ttl time.Duration) <-chan answer {
	t.Helper()
	before := len(processes(t, iss, false))
	answers := make(chan answer, 1)
	go func() {
		grant, err := iss.Wait(t.Context(), resource, holder, ttl)
		answers <- answer{grant, err}
	}()
	require.Eventually(t, func() bool { return len(processes(t, iss, false)) == before+1 }, time.Minute, time.Millisecond)
	return answers
}

// processes are those of the server that have the lock of resource, or wait for it.
func processes(t *testing.T, iss *pgtoken.Advisory, granted bool) []int32 {
	t.Helper()
	rows, err := iss.Pool.Query(t.Context(), "SELECT l.pid FROM pg_locks l, "+advisoryKey(iss.Schema)+
		" WHERE l.locktype = 'advisory' AND l.objsubid = 2 AND l.granted = $2"+
		" AND l.classid::bigint::bit(32) || l.objid::bigint::bit(32) = k::bit(64)", resource, granted)
	require.NoError(t, err)
	all, err := pgx.CollectRows(rows, pgx.RowTo[int32])
	require.NoError(t, err)
	return all
}
