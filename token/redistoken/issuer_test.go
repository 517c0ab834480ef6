package redistoken_test

import (
	"context"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
	"github.com/fencepost/fencepost/token/tokentest"
)

func TestScriptsAreSentAgainWhenForgotten(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	iss := &redistoken.Issuer{Client: client, Prefix: prefix}
	for range 2 {
		require.NoError(t, client.ScriptFlush(t.Context()).Err())
		tok := acquire(t, iss, "a")
		require.NoError(t, client.ScriptFlush(t.Context()).Err())
		_, err := iss.Renew(t.Context(), tok, long)
		require.NoError(t, err)
		require.NoError(t, client.ScriptFlush(t.Context()).Err())
		require.NoError(t, iss.Release(t.Context(), tok))
	}
}

func TestTTLIsInWholeMilliseconds(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	iss := &redistoken.Issuer{Client: client, Prefix: prefix}
	for _, ttl := range []time.Duration{0, -time.Second, time.Millisecond - 1} {
		_, err := iss.Acquire(t.Context(), resource, "a", ttl)
		require.ErrorContains(t, err, "redistoken: ttl")
		_, err = iss.Renew(t.Context(), token.Token{Resource: resource, Number: 1, Holder: "a"}, ttl)
		require.ErrorContains(t, err, "redistoken: ttl")
	}
	before := time.Now()
	grant, err := iss.Acquire(t.Context(), resource, "a", time.Minute+999*time.Microsecond)
	require.NoError(t, err)
	left := client.PTTL(t.Context(), lockKey(prefix, resource)).Val()
	require.LessOrEqual(t, left, time.Minute, "rounded down")
	require.False(t, grant.Until.Before(before.Add(time.Minute)))
	// PTTL counts milliseconds that have begun, and a key lives to the end of its last
	// one.
	require.False(t, grant.Until.After(time.Now().Add(left+time.Millisecond)), "never later than the server's expiry")
}

func TestWhatCannotWorkIsRefused(t *testing.T) {
	t.Parallel()
	ring, client := redis.NewRing(&redis.RingOptions{}), redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer ring.Close()
	defer client.Close()
	cluster := func(options *redis.ClusterOptions) redis.UniversalClient {
		options.Addrs = []string{"127.0.0.1:1"}
		client := redis.NewClusterClient(options)
		t.Cleanup(func() { client.Close() })
		return client
	}
	for iss, text := range map[*redistoken.Issuer]string{
		{}:                                "has no Client",
		{Client: ring}:                    "Ring",
		{Client: client, Replicas: -1}:    "negative number of Replicas: -1",
		{Client: client, Prefix: "{app}"}: "contains a brace",
		{Client: client, Prefix: "a{}"}:   "contains a brace",
		{Client: client, Prefix: "{"}:     "contains a brace",
		{Client: client, Prefix: "}"}:     "contains a brace",
		{Client: cluster(&redis.ClusterOptions{ReadOnly: true})}:       "sends requests to replicas",
		{Client: cluster(&redis.ClusterOptions{RouteByLatency: true})}: "sends requests to replicas",
		{Client: cluster(&redis.ClusterOptions{RouteRandomly: true})}:  "sends requests to replicas",
	} {
		for verb, call := range verbs(iss) {
			require.ErrorContains(t, call(t.Context()), text, verb)
		}
		_, err := iss.Wait(t.Context(), resource, "a", long)
		require.ErrorContains(t, err, text)
	}
	_, err := (&redistoken.Issuer{}).Acquire(t.Context(), "", "a", long)
	require.ErrorIs(t, err, token.ErrInvalid)
	_, err = (&redistoken.Issuer{}).Acquire(t.Context(), resource, "a\n", long)
	require.ErrorIs(t, err, token.ErrInvalid)
}

func TestDriverErrorsAreWrapped(t *testing.T) {
	t.Parallel()
	client := embedded(t)
	require.NoError(t, client.Close())
	for verb, call := range verbs(&redistoken.Issuer{Client: client}) {
		err := call(t.Context())
		require.ErrorIs(t, err, redis.ErrClosed)
		require.ErrorContains(t, err, "redistoken: "+verb)
	}
}

func TestALockWithoutExpiryIsHeldForEver(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	require.NoError(t, client.Set(t.Context(), lockKey(prefix, resource), "another", 0).Err())
	_, err := (&redistoken.Issuer{Client: client, Prefix: prefix}).Acquire(t.Context(), resource, "a", long)
	var held *token.HeldError
	require.ErrorAs(t, err, &held)
	require.Equal(t, time.Duration(math.MaxInt64), held.Remaining)
}

func TestIssuerOnRedis(t *testing.T) {
	t.Parallel()
	tokentest.TestIssuer(t, func(t *testing.T) token.Issuer {
		client, prefix := testenv.Redis(t)
		iss := &redistoken.Issuer{Client: client, Prefix: prefix}
		closing(t, iss)
		return &forgetful{iss}
	})
}

// forgetful is an issuer whose server loses all keys of its prefix.
type forgetful struct{ *redistoken.Issuer }

// Forget implements [tokentest.Forgetter].
func (f *forgetful) Forget(ctx context.Context, _ string) error {
	keys, err := f.Client.Keys(ctx, f.Prefix+":*").Result()
	if err == nil {
		err = f.Client.Del(ctx, keys...).Err()
	}
	return err
}

func TestIssuerOnMiniredis(t *testing.T) {
	t.Parallel()
	tokentest.TestIssuer(t, func(t *testing.T) token.Issuer {
		return closing(t, &redistoken.Issuer{Client: embedded(t)})
	})
}

func TestIssuerOnACluster(t *testing.T) {
	t.Parallel()
	// No node is replaced, so no node needs to be found dead, also on a busy machine.
	cluster := testenv.RedisCluster(t, 3, 0, "--cluster-node-timeout", "60000")
	// The timeout is as for embedded.
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), ReadTimeout: testTimeout})
	t.Cleanup(func() { client.Close() })
	tokentest.TestIssuer(t, func(t *testing.T) token.Issuer {
		return closing(t, &redistoken.Issuer{Client: client})
	})
}

// embedded returns a client of a Redis server in this process, connected by TCP.
func embedded(t *testing.T) *redis.Client {
	t.Helper()
	server := miniredis.RunT(t)
	server.ClockTTL(true)
	// On a busy machine a reply may take longer than the default: the client would repeat a
	// Release, which then returns ErrLost.
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: testTimeout})
	t.Cleanup(func() { client.Close() })
	return client
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
func TestNaiveRenewalThatSetsWhatIsMissing(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	iss := &redistoken.Issuer{Client: client, Prefix: prefix}
	late := cycle(t, iss, "late")
	require.True(t, client.SetNX(t.Context(), lockKey(prefix, resource), late.Holder, long).Val())
	_, err := iss.Acquire(t.Context(), resource, "robbed", long)
	require.ErrorIs(t, err, token.ErrHeld, "the naive renewal must take the lock back")
}

func TestACounterThatIsNoNumberIsReported(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		put   []any // a command without its key
		holds string
	}{
		"text":       {[]any{"SET", "12 apples"}, `"12 apples"`},
		"long text":  {[]any{"SET", strings.Repeat("9x", 1000)}, `"` + strings.Repeat("9x", 32) + `"`},
		"no text":    {[]any{"SET", "\xff\xfe"}, "\"\uFFFD\""},
		"nan":        {[]any{"SET", "nan"}, `"nan"`},
		"inf":        {[]any{"SET", "inf"}, `"inf"`},
		"nothing":    {[]any{"SET", ""}, `""`},
		"a fraction": {[]any{"SET", "999999999999.5e3"}, `"999999999999.5e3"`},
		"a hash":     {[]any{"HSET", "field", "1"}, "a hash"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, prefix := testenv.Redis(t)
			iss := &redistoken.Issuer{Client: client, Prefix: prefix}
			defer iss.Close()
			key := counterKey(prefix, resource)
			held := acquire(t, iss, "holder")
			require.NoError(t, client.Del(t.Context(), key).Err())
			require.NoError(t, client.Do(t.Context(), append([]any{c.put[0], key}, c.put[1:]...)...).Err())
			kept := client.Dump(t.Context(), key).Val()
			want := `the counter "` + key + `" is not a number: its value is ` + c.holds

			require.NoError(t, iss.Release(t.Context(), held), "the lock can be released")
			_, err := iss.Acquire(t.Context(), resource, "second", long)
			require.EqualError(t, err, "redistoken: acquire account/42: "+want)
			require.NotErrorIs(t, err, token.ErrExhausted)
			require.ErrorContains(t, iss.Recover(t.Context(), resource, held.Number+1), want)
			require.Zero(t, client.Exists(t.Context(), lockKey(prefix, resource)).Val(), "no lock is granted")
			require.Equal(t, kept, client.Dump(t.Context(), key).Val(), "the counter is unchanged")
			_, err = iss.Wait(t.Context(), resource, "waiter", long)
			require.ErrorContains(t, err, want, "Wait returns the error too")

			require.NoError(t, client.Del(t.Context(), key).Err())
			require.Greater(t, acquire(t, iss, "third").Number, held.Number)
		})
	}
}

// hazard R5
func TestLargeNumbersKeepTheirDigits(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	t.Run("on Redis", func(t *testing.T) { keepsDigits(t, client, prefix) })
	t.Run("on miniredis", func(t *testing.T) { keepsDigits(t, embedded(t), "fencepost") })
}

func keepsDigits(t *testing.T, client *redis.Client, prefix string) {
	iss := &redistoken.Issuer{Client: client, Prefix: prefix}
	key := counterKey(prefix, resource)
	require.NoError(t, client.Set(t.Context(), key, token.MaxNumber-3, 0).Err())
	for _, want := range []int64{token.MaxNumber - 2, token.MaxNumber - 1, token.MaxNumber} {
		require.Equal(t, want, cycle(t, iss, strconv.FormatInt(want, 10)).Number)
		require.Equal(t, strconv.FormatInt(want, 10), client.Get(t.Context(), key).Val())
	}

	_, err := iss.Acquire(t.Context(), resource, "one too many", long)
	require.ErrorIs(t, err, token.ErrExhausted)
	require.Equal(t, strconv.Itoa(token.MaxNumber), client.Get(t.Context(), key).Val(), "the counter stays")
	require.Zero(t, client.Exists(t.Context(), lockKey(prefix, resource)).Val(), "it has no holder")
}

// hazard R5
func TestNaiveScriptLosesDigits(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	for _, write := range []string{"tostring(n)", "n .. ''"} {
		script := "local n = tonumber(ARGV[1]) + 1; redis.call('SET', KEYS[1], " + write + "); return redis.call('GET', KEYS[1])"
		first := run(t, client, script, []string{prefix + ":naive"}, "179516977481431")
		second := run(t, client, script, []string{prefix + ":naive"}, "179516977481432")
		require.Equal(t, first, second, "%s must write two numbers as one", write)
	}
}
