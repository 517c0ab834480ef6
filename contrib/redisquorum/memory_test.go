package redisquorum_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/contrib/redisquorum"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token"
)

// losses are the ways in which a node comes to vote without its memory.
var losses = map[string]func(t *testing.T, node *testenv.RedisServer){
	"a restart without persistence": func(_ *testing.T, node *testenv.RedisServer) { node.Restart() },
	"a restart from a snapshot that is older": func(t *testing.T, node *testenv.RedisServer) {
		node.Restart()
		require.NotEmpty(t, node.Client().Get(t.Context(), "fencepost:quorum:member").Val(), "the marker is back")
	},
	"FLUSHALL": func(t *testing.T, node *testenv.RedisServer) {
		require.NoError(t, node.Client().FlushAll(t.Context()).Err())
	},
}

// hazard R14
func TestANodeWithoutItsMemoryHasNoVote(t *testing.T) {
	t.Parallel()
	for name, lose := range losses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := servers(t, 3)
			iss, links := all.founded(t, soon)
			all.ahead(t)
			if name == "a restart from a snapshot that is older" {
				require.NoError(t, all["a"].Client().Save(t.Context()).Err())
			}

			links["c"].cut.Store(true)
			first := cycle(t, iss, "first")
			lose(t, all["a"])
			lost := time.Now()
			links["b"].cut.Store(true)
			links["c"].cut.Store(false)
			_, err := iss.Acquire(t.Context(), resource, "second", soon)
			require.ErrorIs(t, err, redisquorum.ErrNoMajority)
			require.ErrorContains(t, err, "node a: it has lost its memory")

			links["b"].cut.Store(false)
			second := cycle(t, iss, "second")
			require.Greater(t, second.Number, first.Number)
			recovered(t, iss)
			require.GreaterOrEqual(t, time.Since(lost), soon, "while a lease may live that it has forgotten")
			links["b"].cut.Store(true)
			require.Greater(t, cycle(t, iss, "third").Number, second.Number, "a has the number, although c was disconnected")
		})
	}
}

// hazard R14
func TestANoteOfAnEarlierRunSaysNothing(t *testing.T) {
	t.Parallel()
	all := servers(t, 3)
	iss, _ := all.founded(t, soon)
	node := all["a"].Client()
	require.NoError(t, node.FlushAll(t.Context()).Err())
	lost := time.Now()
	note := run(t, node) + "0 1" // as a snapshot restores it
	require.NoError(t, node.Set(t.Context(), "fencepost:quorum:unrecovered", note, 0).Err())
	recovered(t, iss)
	require.GreaterOrEqual(t, time.Since(lost), soon)
}

// hazard R14
func TestAQuorumWithoutMarkersRepeatsItself(t *testing.T) {
	t.Parallel()
	for name, lose := range losses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := servers(t, 3)
			if name == "a restart from a snapshot that is older" {
				require.NoError(t, all["a"].Client().Set(t.Context(), "fencepost:quorum:member", "a", 0).Err())
				require.NoError(t, all["a"].Client().Save(t.Context()).Err())
			}
			first := naive(t, all["a"], all["b"])
			lose(t, all["a"])
			require.Equal(t, first, naive(t, all["a"], all["c"]), "the naive quorum must repeat its number")
		})
	}
}

// naive acquires and releases as Redlock does. It mints above the counters of two nodes
// of three, and writes the number to both.
func naive(t *testing.T, majority ...*testenv.RedisServer) (number int64) {
	t.Helper()
	for _, node := range majority {
		require.True(t, node.Client().SetNX(t.Context(), "lock", "me", time.Minute).Val())
		counter, err := node.Client().Get(t.Context(), "counter").Int64()
		if err != redis.Nil {
			require.NoError(t, err)
		}
		number = max(number, counter+1)
	}
	for _, node := range majority {
		require.NoError(t, node.Client().Set(t.Context(), "counter", number, 0).Err())
		require.NoError(t, node.Client().Del(t.Context(), "lock").Err())
	}
	return number
}

// hazard R14
func TestAPromiseToBeDurableIsBelieved(t *testing.T) {
	t.Parallel()
	t.Run("if it is kept, a restart is no loss", func(t *testing.T) {
		t.Parallel()
		all := servers(t, 3, "--appendonly", "yes", "--appendfsync", "always")
		iss, _ := all.issuer(t, soon)
		iss.Durable = true
		require.NoError(t, iss.Bootstrap(t.Context()))
		all.ahead(t)
		first := cycle(t, iss, "first")
		for _, node := range all {
			node.Kill()
		}
		for _, node := range all {
			node.Restart()
		}
		second := cycle(t, iss, "second")
		require.Greater(t, second.Number, first.Number, "at once, and from the counters")
		require.NoError(t, all["a"].Client().FlushAll(t.Context()).Err())
		require.ErrorContains(t, iss.Rejoin(t.Context()), "node a: it has lost its memory")
		recovered(t, iss)
		require.Greater(t, cycle(t, iss, "third").Number, second.Number)
	})
	t.Run("if it is broken, numbers repeat", func(t *testing.T) {
		t.Parallel()
		all := servers(t, 3)
		iss, links := all.issuer(t, time.Hour)
		iss.Durable = true
		require.NoError(t, iss.Bootstrap(t.Context()))
		all.ahead(t)
		require.NoError(t, all["a"].Client().Save(t.Context()).Err())
		links["c"].cut.Store(true)
		first := cycle(t, iss, "first")
		all["a"].Restart()
		links["b"].cut.Store(true)
		links["c"].cut.Store(false)
		require.Equal(t, first.Number, cycle(t, iss, "second").Number, "the twin must repeat its number")
	})
}

// hazard R14
func TestStressNodesMayAllLoseTheirMemoryOneAfterTheOther(t *testing.T) {
	t.Parallel()
	all := servers(t, 5)
	iss, _ := all.founded(t, soon)
	last := all.ahead(t)
	for name := range all {
		require.NoError(t, all[name].Client().FlushAll(t.Context()).Err())
		recovered(t, iss)
		number := cycle(t, iss, name).Number
		require.Greater(t, number, last, "the counters must be the reason")
		last = number
	}
}

func TestACounterThatIsNoNumberIsReported(t *testing.T) {
	t.Parallel()
	all := servers(t, 3)
	iss, _ := all.founded(t, time.Hour)
	before := cycle(t, iss, "before")
	key := counterKey(resource)
	for name, c := range map[string]struct {
		put   []any // a command without its key
		holds string
	}{
		"text":    {[]any{"SET", strings.Repeat("9x", 1000)}, strings.Repeat("9x", 32)},
		"nan":     {[]any{"SET", "nan"}, "nan"},
		"nothing": {[]any{"SET", ""}, ""},
		"a hash":  {[]any{"HSET", "field", "1"}, "a hash"},
	} {
		t.Run(name, func(t *testing.T) {
			kept, want := map[string]string{}, fmt.Sprintf("its counter %q is not a number: its value is %q", key, c.holds)
			for _, node := range []string{"b", "c"} {
				client := all[node].Client()
				require.NoError(t, client.Del(t.Context(), key).Err())
				require.NoError(t, client.Do(t.Context(), append([]any{c.put[0], key}, c.put[1:]...)...).Err())
				kept[node] = client.Dump(t.Context(), key).Val()
			}
			_, err := iss.Acquire(t.Context(), resource, "second", time.Hour)
			require.ErrorIs(t, err, redisquorum.ErrNoMajority)
			require.NotErrorIs(t, err, token.ErrExhausted)
			for node, value := range kept {
				require.ErrorContains(t, err, "node "+node+": "+want)
				require.Equal(t, value, all[node].Client().Dump(t.Context(), key).Val(), "the counter is unchanged")
			}
			require.ErrorContains(t, iss.Recover(t.Context(), resource, before.Number+1), want)
			require.NoError(t, all["b"].Client().Del(t.Context(), key).Err())
			require.Greater(t, cycle(t, iss, "third").Number, before.Number, "c is passed over")
			require.NoError(t, all["c"].Client().Del(t.Context(), key).Err())
			require.Greater(t, cycle(t, iss, "fourth").Number, before.Number)
		})
	}
}
