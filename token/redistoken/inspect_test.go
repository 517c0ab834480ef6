package redistoken_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
)

// locks returns the locks of iss whose names begin with prefix, by name.
func locks(t *testing.T, iss *redistoken.Issuer, prefix string) map[string]token.State {
	t.Helper()
	found := map[string]token.State{}
	for s, err := range iss.Locks(t.Context(), prefix) {
		require.NoError(t, err)
		require.NotContains(t, found, s.Resource, "a server whose table of keys keeps its size")
		found[s.Resource] = s
	}
	return found
}

func TestWaitersAreTheFirstOfEachProcessInTheirOrder(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.OwnRedis(t).Client(), "fencepost"
	holder := &redistoken.Issuer{Client: client}
	tok := acquire(t, holder, "holder")
	want := token.State{Resource: resource, Number: tok.Number, Holder: "holder"}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	for _, name := range []string{"zoe", "adam", "mia"} {
		process := closing(t, &redistoken.Issuer{Client: client})
		startWait(ctx, t, process, client, name, long)
		go func() { _, _ = process.Wait(ctx, resource, name+" 2", long) }()
		require.Eventually(t, func() bool { return redistoken.WaiterCount(process) == 2 }, testTimeout, 1)
		want.Waiters = append(want.Waiters, name)
	}
	state, err := holder.Inspect(t.Context(), resource)
	require.NoError(t, err)
	want.Remaining = state.Remaining
	require.Equal(t, want, state)
	require.Positive(t, state.Remaining)
	require.LessOrEqual(t, state.Remaining, long)
	require.Equal(t, want.Waiters, locks(t, holder, "")[resource].Waiters)

	// No script has run since the lock expired.
	require.NoError(t, client.Del(t.Context(), lockKey(prefix, resource)).Err())
	require.Equal(t, map[string]token.State{resource: {Resource: resource, Number: tok.Number, Waiters: want.Waiters}}, locks(t, holder, ""))
}

// hazard R8
func TestLocksOfNamesThatSearchesAndKeysGiveAMeaning(t *testing.T) {
	t.Parallel()
	client, unique := testenv.OwnRedis(t).Client(), "fencepost"
	prefix := unique + `*[ab]?\`
	iss := &redistoken.Issuer{Client: client, Prefix: prefix}
	for _, decoy := range []string{unique + "xa?", unique + "xax", unique + `*[ab]x\`, unique} {
		acquire(t, &redistoken.Issuer{Client: client, Prefix: decoy}, "decoy")
	}
	names := []string{
		"*", "a*", "a", "ab", "a?", "a[b]", "[ab]", `\`, `a\`, `\*`, "konto/größe", "{", "}", "a}:lock:a", "a}:queue:a", "lock:a", "a:lock:*", ":",
	}
	for _, name := range names {
		_, err := iss.Acquire(t.Context(), name, "holder", long)
		require.NoError(t, err)
	}
	// Keys that look like locks.
	require.NotEqual(t, base(prefix, "a"), base(prefix, "ab"))
	require.NoError(t, client.Set(t.Context(), base(prefix, "ab")+"lock:a", "another bucket", 0).Err())
	require.NoError(t, client.Set(t.Context(), prefix+":{7}:log:a", "another kind", 0).Err())

	require.ElementsMatch(t, names, slices.Collect(maps.Keys(locks(t, iss, ""))))
	for search, want := range map[string][]string{
		"*": {"*"}, "a*": {"a*"}, "?": nil, "a?": {"a?"}, "[": {"[ab]"}, "a[": {"a[b]"}, `\`: {`\`, `\*`}, `a\`: {`a\`},
		"a}:lock:": {"a}:lock:a"}, "lock:": {"lock:a"}, ":": {":"}, "konto/gr": {"konto/größe"}, "account": nil,
	} {
		require.ElementsMatch(t, want, slices.Collect(maps.Keys(locks(t, iss, search))), search)
	}
}

// operator has the rights that docs/locks.md names.
var operator = []any{
	"ACL", "SETUSER", "operator", "on", ">secret", "~fencepost:*", "+evalsha", "+eval", "+get", "+pttl", "+zrevrange", "+scan",
}

func TestLocksOfAllMasters(t *testing.T) {
	t.Parallel()
	cluster := testenv.RedisCluster(t, 3, 0, "--cluster-node-timeout", "60000")
	iss := &redistoken.Issuer{Client: cluster.Client()}
	var names []string
	masters := map[*testenv.RedisServer]bool{}
	for n := range 30 {
		name := fmt.Sprint("account/", n)
		_, err := iss.Acquire(t.Context(), name, "holder", long)
		require.NoError(t, err)
		names = append(names, name)
		masters[cluster.Master(lockKey("fencepost", name))] = true
	}
	require.Len(t, masters, 3, "the names must be on all masters")
	for _, node := range cluster.Nodes() {
		require.NoError(t, node.Client().Do(t.Context(), append(operator, "+cluster")...).Err())
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), Username: "operator", Password: "secret"})
	defer client.Close()
	require.ElementsMatch(t, names, slices.Collect(maps.Keys(locks(t, &redistoken.Issuer{Client: client}, "account/"))))
}

func TestLocksOfManyPages(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	iss := &redistoken.Issuer{Client: client, Prefix: prefix}
	const many = 5000
	_, err := client.Pipelined(t.Context(), func(pipe redis.Pipeliner) error {
		for n := range many {
			pipe.Set(t.Context(), lockKey(prefix, fmt.Sprint(n)), "holder", long)
		}
		return nil
	})
	require.NoError(t, err)
	found := map[string]bool{} // the server may resize its table of keys for another test
	for s, err := range iss.Locks(t.Context(), "") {
		require.NoError(t, err)
		found[s.Resource] = true
	}
	require.Len(t, found, many)
	for s, err := range iss.Locks(t.Context(), "") { // a caller that has seen enough
		require.NoError(t, err)
		require.Equal(t, "holder", s.Holder)
		break
	}
}

func TestAnOperatorNeedsNoRightToWrite(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	admin := server.Client()
	tok := acquire(t, &redistoken.Issuer{Client: admin}, "holder")
	require.NoError(t, admin.Do(t.Context(), operator...).Err())
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "operator", Password: "secret"})
	defer client.Close()
	iss := &redistoken.Issuer{Client: client}
	state, err := iss.Inspect(t.Context(), resource)
	require.NoError(t, err)
	require.Equal(t, tok, token.Token{Resource: state.Resource, Number: state.Number, Holder: state.Holder})
	require.Equal(t, "holder", locks(t, iss, "")[resource].Holder)
	require.ErrorContains(t, iss.Release(t.Context(), tok), "can't run this command")

	require.NoError(t, admin.Do(t.Context(), "ACL", "SETUSER", "operator", "-scan").Err())
	for _, err := range iss.Locks(t.Context(), "") {
		require.ErrorContains(t, err, "NOPERM")
	}
}

func TestAReplicaIsInspected(t *testing.T) {
	t.Parallel()
	master, replica := testenv.OwnRedis(t), testenv.OwnRedis(t)
	tok := acquire(t, &redistoken.Issuer{Client: master.Client()}, "holder")
	replica.ReplicaOf(master)
	iss := &redistoken.Issuer{Client: replica.Client()}
	require.Eventually(t, func() bool {
		state, err := iss.Inspect(t.Context(), resource)
		return err == nil && state.Number == tok.Number && state.Holder == "holder"
	}, testTimeout, 1)
	require.Len(t, locks(t, iss, ""), 1)
	_, err := iss.Acquire(t.Context(), resource, "a", long)
	require.ErrorIs(t, err, token.ErrUnreachable)
}

func TestInspectReportsACounterThatIsNoNumber(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	iss := &redistoken.Issuer{Client: client, Prefix: prefix}
	acquire(t, iss, "holder")
	require.NoError(t, client.Set(t.Context(), counterKey(prefix, resource), "12 apples", 0).Err())
	want := `the counter "` + counterKey(prefix, resource) + `" is not a number: its value is "12 apples"`
	_, err := iss.Inspect(t.Context(), resource)
	require.EqualError(t, err, "redistoken: inspect account/42: "+want)
	for _, err := range iss.Locks(t.Context(), "") {
		require.EqualError(t, err, "redistoken: locks: "+want)
	}
}
