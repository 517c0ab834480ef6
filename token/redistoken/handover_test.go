package redistoken_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
)

// hazard R13
func TestNobodyIsToldOfALockThatCouldNotBeSet(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	client := server.Client()
	holder := &redistoken.Issuer{Client: client}
	tok := acquire(t, holder, "holder")
	got := waits(t.Context(), t, closing(t, &redistoken.Issuer{Client: client}), client, "waiter", long)
	told := heard(t, client, inbox(t, client, "fencepost"))

	require.NoError(t, client.ConfigSet(t.Context(), "min-replicas-to-write", "1").Err())
	require.ErrorContains(t, holder.Release(t.Context(), tok), "NOREPLICAS")
	require.NoError(t, client.ConfigSet(t.Context(), "min-replicas-to-write", "0").Err())
	require.Empty(t, told(), "the waiter must hear nothing")
	require.Equal(t, "holder", client.Get(t.Context(), lockKey("fencepost", resource)).Val())
	require.NoError(t, holder.Release(t.Context(), tok))
	require.Equal(t, "waiter", handed(t, got).Token.Holder)
	require.NotEmpty(t, told(), "this test must be able to hear")

	t.Run("published before it is set, it holds nothing", func(t *testing.T) {
		told := heard(t, client, "naive")
		require.NoError(t, client.ConfigSet(t.Context(), "min-replicas-to-write", "1").Err())
		naive := redis.NewScript(`redis.call('PUBLISH', ARGV[2], ARGV[1])
			return redis.call('SET', KEYS[1], ARGV[1], 'PX', 60000)`)
		require.ErrorContains(t, naive.Run(t.Context(), client, []string{"naive"}, "waiter", "naive").Err(), "NOREPLICAS")
		require.NoError(t, client.ConfigSet(t.Context(), "min-replicas-to-write", "0").Err())
		require.Contains(t, told(), "waiter", "the waiter must be deceived")
		require.Zero(t, client.Exists(t.Context(), "naive").Val())
	})
}

// hazard R13
func TestALateMessageGrantsNothing(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	client := server.Client()
	holder := &redistoken.Issuer{Client: client}
	tok := acquire(t, holder, "holder")
	var slow faults
	paused := closing(t, &redistoken.Issuer{Client: slow.client(t, server.Addr())})
	messages := slow.hold(t)
	late := waits(t.Context(), t, paused, client, "late", 300*time.Millisecond)
	told := heard(t, client, inbox(t, client, "fencepost"))
	next := waits(t.Context(), t, closing(t, &redistoken.Issuer{Client: client}), client, "next", long)

	require.NoError(t, holder.Release(t.Context(), tok))
	require.Equal(t, "late", client.Get(t.Context(), lockKey("fencepost", resource)).Val())
	require.Eventually(t, func() bool { // whoever comes by finds its time up, and hands the lock to the next
		_, err := holder.Acquire(t.Context(), resource, "passer-by", long)
		var held *token.HeldError
		return errors.As(err, &held) && held.Holder == "next"
	}, time.Minute, 10*time.Millisecond)
	third := handed(t, next)
	t.Run("anchored at its receipt, it is a lease while another holds", func(t *testing.T) {
		message := strings.Split(told()[0], "\n")
		require.Equal(t, "late", message[2])
		number, err := strconv.ParseInt(message[0], 10, 64)
		require.NoError(t, err)
		naive := token.Grant{Token: token.Token{Resource: resource, Number: number, Holder: message[2]}}
		naive.Until = time.Now().Add(300 * time.Millisecond)
		var both history
		both.granted(third)
		both.granted(naive)
		require.NotEmpty(t, both.overlaps, "the naive waiter must believe it")
		require.NotEmpty(t, both.falls, "with a number below the holder's")
	})
	messages.let()
	select {
	case r := <-late:
		t.Fatalf("the late message was believed: %+v", r)
	case <-time.After(600 * time.Millisecond): // long enough to read it, too short for the lock to expire
	}
	require.Equal(t, "next", client.Get(t.Context(), lockKey("fencepost", resource)).Val())
	require.NoError(t, holder.Release(t.Context(), third.Token))
	require.Greater(t, handed(t, late).Token.Number, third.Token.Number)
}

// hazard R13
func TestALateMessageDoesNotTakeTheLockFromWhoHasFoundItItsOwn(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	client := server.Client()
	holder := &redistoken.Issuer{Client: client}
	// The hold ends when the waiter is about to ask, as its ttl would.
	grant, err := holder.Acquire(t.Context(), resource, "holder", 300*time.Millisecond)
	require.NoError(t, err)
	var slow faults
	paused := closing(t, &redistoken.Issuer{Client: slow.client(t, server.Addr())})
	messages := slow.hold(t)
	got := waits(t.Context(), t, paused, client, "waiter", long)
	told := heard(t, client, inbox(t, client, "fencepost"))
	require.NoError(t, holder.Release(t.Context(), grant.Token))
	found := handed(t, got) // by asking again, when the holder's time would have been up
	require.Len(t, told(), 1, "this test must hold a message back")

	messages.let()
	require.Never(t, func() bool {
		return client.Get(t.Context(), lockKey("fencepost", resource)).Val() != "waiter"
	}, 300*time.Millisecond, 10*time.Millisecond)
	_, err = paused.Renew(t.Context(), found.Token, long)
	require.NoError(t, err)

	t.Run("a process that passes on what nobody waits for drops it", func(t *testing.T) {
		require.NoError(t, holder.Release(t.Context(), token.Token{Resource: resource, Number: 1, Holder: "waiter"}))
		_, err := paused.Renew(t.Context(), found.Token, long)
		require.ErrorIs(t, err, token.ErrLost, "the naive process must rob its own holder")
	})
}

// hazard R9
func TestAServerClockSetForwardDoesNotLengthenAGrant(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	acquire(t, &redistoken.Issuer{Client: client, Prefix: prefix}, "holder")
	iss := closing(t, &redistoken.Issuer{Client: client, Prefix: prefix})
	got := waits(t.Context(), t, iss, client, "waiter", 3*time.Second)
	asked := int64(client.ZRangeWithScores(t.Context(), lineKey(prefix, resource), 0, 0).Val()[0].Score)
	// The server hands over after its clock was set an hour ahead.
	clock := time.Now().Add(time.Hour).UnixMicro()
	require.NoError(t, client.Set(t.Context(), lockKey(prefix, resource), "waiter", time.Second).Err())
	text := fmt.Sprintf("%d\n%d\nwaiter\n%s", clock/10, clock, lockKey(prefix, resource))
	require.EqualValues(t, 1, client.Publish(t.Context(), inbox(t, client, prefix), text).Val())
	grant := handed(t, got)
	require.Equal(t, clock/10, grant.Token.Number, "this test must be believed")
	require.False(t, grant.Until.After(time.Now().Add(time.Second)), "the accept period, counted from now at the latest")

	since := time.Duration(clock-asked) * time.Microsecond
	naive := time.Now().Add(-time.Minute).Add(since) // had the waiter asked a minute ago, by the server's clock alone
	require.True(t, naive.After(time.Now().Add(time.Second)), "the naive waiter must think that it has it for most of the hour")
}

// hazard R9
func TestNumbersAndTheLineGoOnInOrderWhenTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	holder := &redistoken.Issuer{Client: client, Prefix: prefix}
	tok := acquire(t, holder, "holder")
	first := waits(t.Context(), t, closing(t, &redistoken.Issuer{Client: client, Prefix: prefix}), client, "first", long)
	// What the first has seen was two hours ahead.
	line, ahead := lineKey(prefix, resource), (2 * time.Hour).Microseconds()
	counter := clock() + ahead/10
	member := client.ZRange(t.Context(), line, 0, 0).Val()[0]
	require.NoError(t, client.ZIncrBy(t.Context(), line, float64(ahead), member).Err())
	require.NoError(t, client.Set(t.Context(), counterKey(prefix, resource), counter, 0).Err())
	second := waits(t.Context(), t, closing(t, &redistoken.Issuer{Client: client, Prefix: prefix}), client, "second", long)

	require.NoError(t, holder.Release(t.Context(), tok))
	one := handed(t, first).Token
	require.Equal(t, counter+1, one.Number)
	require.NoError(t, holder.Release(t.Context(), one))
	two := handed(t, second).Token
	require.Greater(t, two.Number, one.Number)

	naive := prefix + ":naive"
	require.NoError(t, client.ZAdd(t.Context(), naive, redis.Z{Score: float64(time.Now().UnixMicro() + ahead), Member: "first"}).Err())
	require.NoError(t, client.ZAdd(t.Context(), naive, redis.Z{Score: float64(time.Now().UnixMicro()), Member: "second"}).Err())
	require.Equal(t, "second", client.ZRange(t.Context(), naive, 0, 0).Val()[0], "tickets that are the clock alone must pass the line")
	require.Less(t, clock(), one.Number, "a number that is the clock alone must fall")
}

// inbox is the channel of the only process in line.
func inbox(t *testing.T, client *redis.Client, prefix string) string {
	t.Helper()
	members := client.ZRange(t.Context(), lineKey(prefix, resource), 0, -1).Val()
	require.Len(t, members, 1)
	return strings.SplitN(members[0], "\n", 3)[2][1:]
}

// heard returns what has been published to channel since it was called.
func heard(t *testing.T, client *redis.Client, channel string) func() []string {
	t.Helper()
	sub := client.Subscribe(t.Context(), channel)
	t.Cleanup(func() { sub.Close() })
	_, err := sub.Receive(t.Context())
	require.NoError(t, err)
	var all []string
	return func() []string {
		const end = "that was all"
		require.NoError(t, client.Publish(t.Context(), channel, end).Err())
		for {
			m, err := sub.ReceiveMessage(t.Context())
			require.NoError(t, err)
			if m.Payload == end {
				return all
			}
			all = append(all, m.Payload)
		}
	}
}
