package pgtoken_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token"
)

// Nobody is told: the guard is what stands between the two.
func TestAdvisoryOfAKilledSessionPassesOn(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	iss := advisory(t, pool, schema)
	first, err := iss.Acquire(t.Context(), resource, "a", long)
	require.NoError(t, err)
	waiting := standInLine(t, iss, "b", long)
	exec(t, pool, "SELECT pg_terminate_backend($1)", processes(t, iss, true)[0])
	b := <-waiting
	require.NoError(t, b.err)
	require.True(t, time.Now().Before(first.Until), "the first one still believes in it")
	var marks guard.Memory
	require.NoError(t, marks.Admit(t.Context(), b.grant.Token))
	require.ErrorIs(t, marks.Admit(t.Context(), first.Token), guard.ErrStale)

	_, err = iss.Renew(t.Context(), first.Token, long)
	require.ErrorIs(t, err, token.ErrLost)
	require.ErrorContains(t, err, "57P01")
	require.ErrorIs(t, iss.Release(t.Context(), first.Token), token.ErrLost)
	_, err = iss.Renew(t.Context(), b.grant.Token, long)
	require.NoError(t, err)
	require.NoError(t, iss.Release(t.Context(), b.grant.Token))
}

// Whoever comes first once the lease has ended, the timer or the renewal, it is
// lost.
func TestAdvisoryRenewedTooLateIsLost(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	iss := advisory(t, pool, schema)
	for i := range 50 {
		grant, err := iss.Acquire(t.Context(), resource, fmt.Sprint("holder-", i), 20*time.Millisecond)
		require.NoError(t, err)
		for time.Now().Before(grant.Until) {
			runtime.Gosched()
		}
		_, err = iss.Renew(t.Context(), grant.Token, long)
		require.ErrorIs(t, err, token.ErrLost)
	}
}

// hazard L1
func TestAdvisoryOfAVanishedClientEndsAfterUntil(t *testing.T) {
	t.Parallel()
	const ttl = 700 * time.Millisecond
	pool, schema := testenv.Postgres(t)
	w, far := wired(t)
	iss := advisory(t, far, schema)
	naive, err := far.Acquire(t.Context())
	require.NoError(t, err)
	defer naive.Release()
	const try = "SELECT pg_try_advisory_lock(9652, $1)"
	key := int32(time.Now().UnixNano())
	require.True(t, query[bool](t, naive, try, key))
	grant, err := iss.Acquire(t.Context(), resource, "a", ttl)
	require.NoError(t, err)
	w.vanish()

	b := awaited(t, advisory(t, pool, schema), "b")
	require.False(t, time.Now().Before(grant.Until), "not before the holder has given up")
	require.Greater(t, b.Number, grant.Token.Number)
	require.False(t, query[bool](t, pool, try, key), "a session without a timeout must keep its lock")
}

func TestAdvisoryIsGivenBackAtUntil(t *testing.T) {
	t.Parallel()
	_, schema := testenv.Postgres(t)
	single := connect(t, one)
	iss := advisory(t, single, schema)
	grant, err := iss.Acquire(t.Context(), resource, "a", 100*time.Millisecond)
	require.NoError(t, err)
	b := awaited(t, iss, "b") // on the pool's one connection, which nobody has released
	require.False(t, time.Now().Before(grant.Until))
	require.NoError(t, iss.Release(t.Context(), b))
}

func TestAdvisoryClose(t *testing.T) {
	t.Parallel()
	_, schema := testenv.Postgres(t)
	pool := connect(t, func(*pgxpool.Config) {})
	iss := advisory(t, pool, schema)
	tok := acquire(t, iss, "a")
	require.NoError(t, iss.Close())
	_, err := iss.Renew(t.Context(), tok, long)
	require.ErrorIs(t, err, token.ErrLost)
	_, err = iss.Acquire(t.Context(), resource, "b", long)
	require.EqualError(t, err, "pgtoken: acquire account/42: Advisory is closed")
	cycle(t, advisory(t, pool, schema), "c")
}

// awaited acquires as soon as it can.
func awaited(t *testing.T, iss token.Issuer, holder string) (tok token.Token) {
	t.Helper()
	require.Eventually(t, func() bool {
		grant, err := iss.Acquire(t.Context(), resource, holder, long)
		tok = grant.Token
		return err == nil
	}, time.Minute, time.Millisecond)
	return tok
}
