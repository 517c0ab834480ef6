package redistoken_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
)

// hazard R7
func TestHoldersAreComparedWhole(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	iss := &redistoken.Issuer{Client: client, Prefix: prefix}
	held := acquire(t, iss, "worker-10")
	for _, holder := range []string{"worker-1", "worker-100", "Worker-10", "worker-10 ", "worker-1*"} {
		other := token.Token{Resource: resource, Number: held.Number, Holder: holder}
		_, err := iss.Renew(t.Context(), other, long)
		require.ErrorIs(t, err, token.ErrLost)
		require.ErrorIs(t, iss.Release(t.Context(), other), token.ErrLost)
		_, err = iss.Acquire(t.Context(), resource, holder, long)
		var refused *token.HeldError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, "worker-10", refused.Holder)
		require.Positive(t, refused.Remaining)
		require.LessOrEqual(t, refused.Remaining, long)
	}
	require.NoError(t, iss.Release(t.Context(), held))
}

// hazard R7
func TestNaiveOwnerCheckByPrefix(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	lock := acquire(t, &redistoken.Issuer{Client: client, Prefix: prefix}, "worker-10")
	const byPrefix = `local v = redis.call('GET', KEYS[1])
		if v and string.sub(v, 1, #ARGV[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
		return 0`
	released := run(t, client, byPrefix, []string{lockKey(prefix, lock.Resource)}, "worker-1")
	require.EqualValues(t, 1, released, "worker-1 must take worker-10's lock")
}

// hazard L4
func TestRenewNeverAcquires(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	iss := &redistoken.Issuer{Client: client, Prefix: prefix}
	key := lockKey(prefix, resource)
	grant, err := iss.Acquire(t.Context(), resource, "late", 30*time.Millisecond)
	require.NoError(t, err)
	gone := func() bool { return client.Exists(t.Context(), key).Val() == 0 }
	require.Eventually(t, gone, 30*time.Second, 5*time.Millisecond)

	_, err = iss.Renew(t.Context(), grant.Token, long)
	require.ErrorIs(t, err, token.ErrLost)
	require.True(t, gone(), "free stays free")
	successor := acquire(t, iss, "successor")
	_, err = iss.Renew(t.Context(), grant.Token, long)
	require.ErrorIs(t, err, token.ErrLost)
	require.Equal(t, "successor", client.Get(t.Context(), key).Val())
	require.Greater(t, successor.Number, grant.Token.Number)

	t.Run("a renewal that sets what is missing steals it back", func(t *testing.T) {
		require.NoError(t, iss.Release(t.Context(), successor))
		require.True(t, client.SetNX(t.Context(), key, "late", long).Val())
		_, err := iss.Acquire(t.Context(), resource, "robbed", long)
		require.ErrorIs(t, err, token.ErrHeld)
	})
}
