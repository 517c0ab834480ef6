package redistoken_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token/redistoken"
)

func TestWaitWithAnEndedContextSendsNothing(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	iss := closing(t, &redistoken.Issuer{Client: client, Prefix: prefix})
	cause := errors.New("over before it began")
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	mine := acquire(t, iss, "mine")
	_, err := iss.Wait(ended, resource, "mine", long)
	require.ErrorIs(t, err, cause)
	require.Equal(t, "mine", client.Get(t.Context(), lockKey(prefix, resource)).Val(), "nothing was given back")

	got := waits(t.Context(), t, iss, client, "waiter", long) // there is a subscription now
	require.NoError(t, iss.Release(t.Context(), mine))
	require.NoError(t, iss.Release(t.Context(), handed(t, got).Token))
	last := client.Get(t.Context(), counterKey(prefix, resource)).Val()
	for range 50 {
		_, err := iss.Wait(ended, resource, "late", long)
		require.ErrorIs(t, err, cause)
	}
	require.Equal(t, last, client.Get(t.Context(), counterKey(prefix, resource)).Val(), "no number was drawn")
}

func TestAWaiterSubscribesAgainWhenItMay(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	admin := server.Client()
	user := func(channels string) {
		rights := []any{"ACL", "SETUSER", "some", "on", ">secret", "~*", "+@all", "resetchannels"}
		if channels != "" {
			rights = append(rights, channels)
		}
		require.NoError(t, admin.Do(t.Context(), rights...).Err())
	}
	user("&*")
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "some", Password: "secret"})
	t.Cleanup(func() { client.Close() })
	holder := &redistoken.Issuer{Client: admin}
	tok := acquire(t, holder, "holder")
	got := waits(t.Context(), t, closing(t, &redistoken.Issuer{Client: client}), admin, "waiter", long)

	user("")                           // which ends the subscription
	time.Sleep(300 * time.Millisecond) // it tries in vain
	user("&*")
	require.Eventually(t, func() bool {
		return len(admin.PubSubChannels(t.Context(), "*").Val()) == 1
	}, 20*time.Second, 10*time.Millisecond, "nobody would tell the waiter")
	require.NoError(t, holder.Release(t.Context(), tok))
	require.Equal(t, "waiter", handed(t, got).Token.Holder)
}

func TestWhatWasHeldIsForgottenThoughMessagesComeAllTheTime(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	client := server.Client()
	iss := closing(t, &redistoken.Issuer{Client: client})
	redistoken.Rest(iss, 400*time.Millisecond)
	tok := acquire(t, iss, "holder")
	got := waits(t.Context(), t, iss, client, "waiter", long)
	channel := inbox(t, client, "fencepost")
	require.NoError(t, iss.Release(t.Context(), tok))
	waiter := handed(t, got).Token
	_, err := iss.Renew(t.Context(), waiter, time.Millisecond) // as a Locker with AtLeast does, instead of Release
	require.NoError(t, err)
	require.Equal(t, 1, redistoken.Held(iss))
	require.Eventually(t, func() bool {
		require.NoError(t, client.Publish(t.Context(), channel, "for another").Err())
		return redistoken.Held(iss) == 0
	}, 10*time.Second, 5*time.Millisecond)
}

func TestASubscriptionAtADemotedServerIsNotBelieved(t *testing.T) {
	t.Parallel()
	one, two := testenv.OwnRedis(t), testenv.OwnRedis(t)
	two.ReplicaOf(one)
	var addr atomic.Value
	addr.Store(one.Addr())
	client := redis.NewClient(&redis.Options{
		Addr: "master:6379",
		Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, addr.Load().(string))
		},
	})
	t.Cleanup(func() { client.Close() })
	holder := &redistoken.Issuer{Client: client}
	tok := acquire(t, holder, "holder")
	first := waits(t.Context(), t, closing(t, &redistoken.Issuer{Client: client}), one.Client(), "first", 3*time.Second)
	require.Eventually(t, func() bool {
		return two.Client().ZCard(t.Context(), lineKey("fencepost", resource)).Val() == 1
	}, time.Minute, time.Millisecond)
	two.Promote()
	one.ReplicaOf(two)
	addr.Store(two.Addr())
	other := closing(t, &redistoken.Issuer{Client: two.Client()})
	second := waits(t.Context(), t, other, two.Client(), "second", 3*time.Second)
	require.Eventually(t, func() bool {
		return len(one.Client().PubSubChannels(t.Context(), "*").Val()) == 0
	}, time.Minute, 10*time.Millisecond, "it must follow the master")
	require.Eventually(t, func() bool {
		return len(two.Client().PubSubChannels(t.Context(), "*").Val()) == 2
	}, time.Minute, 10*time.Millisecond)
	require.NoError(t, (&redistoken.Issuer{Client: two.Client()}).Release(t.Context(), tok))
	var all history
	for _, got := range []<-chan result{first, second} {
		select {
		case r := <-got:
			require.NoError(t, r.err)
			all.granted(r.Grant)
			t.Log(r.Grant, time.Until(r.Until))
		case <-time.After(900 * time.Millisecond):
		}
	}
	require.Empty(t, all.overlaps)
}
