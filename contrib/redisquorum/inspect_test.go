package redisquorum_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/contrib/redisquorum"
	"github.com/fencepost/fencepost/token"
)

func TestInspectReturnsWhatAMajorityHas(t *testing.T) {
	t.Parallel()
	all := servers(t, 3)
	holder, _ := all.founded(t, time.Hour)
	grant, err := holder.Acquire(t.Context(), resource, "holder", time.Hour)
	require.NoError(t, err)
	iss := &redisquorum.Issuer{Nodes: map[string]redis.UniversalClient{}, MaxTTL: time.Hour}
	for name, server := range all { // with the rights that docs/locks.md names
		require.NoError(t, server.Client().Do(t.Context(), "ACL", "SETUSER", "operator", "on", ">secret", "~fencepost:*",
			"+eval", "+evalsha", "+get", "+pttl", "+info", "+scan").Err())
		client := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "operator", Password: "secret", MaxRetries: -1})
		t.Cleanup(func() { client.Close() })
		iss.Nodes[name] = client
	}
	iss.Patient(testTimeout)
	for s, err := range iss.Locks(t.Context(), "account/") {
		require.NoError(t, err)
		require.Equal(t, "holder", s.Holder)
	}
	inspect := func(holder string) token.State {
		t.Helper()
		state, err := iss.Inspect(t.Context(), resource)
		require.NoError(t, err)
		require.Equal(t, grant.Token.Number, state.Number)
		require.Equal(t, holder, state.Holder)
		return state
	}
	const lock = "fencepost:quorum:lock:" + resource
	do := func(name string, args ...any) {
		t.Helper()
		require.NoError(t, all[name].Client().Do(t.Context(), args...).Err())
	}
	do("a", "PEXPIRE", lock, 1_000_000)
	do("b", "PEXPIRE", lock, 2_000_000)
	do("c", "PEXPIRE", lock, 3_000_000)
	left := inspect("holder").Remaining
	require.LessOrEqual(t, left, 2*time.Hour)
	do("a", "DEL", lock)
	state := inspect("holder")
	require.LessOrEqual(t, state.Remaining, 2000*time.Second, "a majority has it until then")
	do("b", "DEL", lock)
	require.Zero(t, inspect("").Remaining, "a minority")
	for _, err := range iss.Locks(t.Context(), "") {
		require.Fail(t, "no majority has a lock", err)
	}

	// c has the lock, and a or b may have it: with one of them down it is not known.
	all["b"].Kill()
	_, err = iss.Inspect(t.Context(), resource)
	require.ErrorIs(t, err, redisquorum.ErrNoMajority)
	require.ErrorIs(t, err, token.ErrUnreachable)
	do("c", "DEL", lock)
	inspect("")

	// A node that has lost its memory is not asked, and nothing is written to it.
	all["b"].Restart()
	require.NoError(t, all["b"].Client().Do(t.Context(), "ACL", "SETUSER", "operator", "on", ">secret", "~*", "+@all").Err())
	do("c", "SET", lock, "1234567890123456789 other", "PX", 1_000_000)
	_, err = iss.Inspect(t.Context(), resource)
	require.ErrorIs(t, err, redisquorum.ErrNoMajority)
	require.ErrorContains(t, err, "it is no member of this quorum, or has lost its memory")
	require.Zero(t, all["b"].Client().DBSize(t.Context()).Val())
}
