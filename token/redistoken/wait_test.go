package redistoken_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
)

// result is the result of a Wait.
type result struct {
	token.Grant
	err error
}

// startWait starts a Wait for holder, and returns when it is in the queue in Redis as the
// only waiter of its process.
func startWait(
	ctx context.Context, t *testing.T, iss *redistoken.Issuer, client redis.UniversalClient, holder string, ttl time.Duration,
) chan result {
	t.Helper()
	prefix := iss.Prefix
	if prefix == "" {
		prefix = "fencepost"
	}
	before := client.ZCard(t.Context(), queueKey(prefix, resource)).Val()
	got := make(chan result, 1)
	go func() {
		grant, err := iss.Wait(ctx, resource, holder, ttl)
		got <- result{grant, err}
	}()
	require.Eventually(t, func() bool {
		return client.ZCard(t.Context(), queueKey(prefix, resource)).Val() == before+1
	}, testTimeout, time.Millisecond)
	return got
}

// awaitPolled is awaitGrant for a waiter of iss that receives no notifications.
func awaitPolled(t *testing.T, iss *redistoken.Issuer, got chan result) token.Grant {
	t.Helper()
	require.Eventually(t, func() bool {
		redistoken.PollNow(iss)
		return len(got) > 0
	}, testTimeout, 10*time.Millisecond, "the waiter was not served")
	return awaitGrant(t, got)
}

// allWait returns when n callers wait at the issuers and each process with waiters is in
// the queue in Redis, or when ctx ends.
func allWait(ctx context.Context, client *redis.Client, issuers []*redistoken.Issuer, n int) {
	for ; ctx.Err() == nil; time.Sleep(200 * time.Microsecond) {
		waiters, processes := 0, int64(0)
		for _, iss := range issuers {
			here := redistoken.WaiterCount(iss)
			waiters, processes = waiters+here, processes+int64(min(here, 1))
		}
		if waiters == n && client.ZCard(ctx, queueKey("fencepost", resource)).Val() >= processes {
			return
		}
	}
}

// awaitGrant returns the grant of a Wait.
func awaitGrant(t *testing.T, got <-chan result) token.Grant {
	t.Helper()
	r := within(t, got, "the waiter was not served")
	require.NoError(t, r.err)
	return r.Grant
}

func TestWaitersOfManyProcessesAreServedInTheOrderInWhichTheyAsked(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	last := acquire(t, &redistoken.Issuer{Client: client, Prefix: prefix}, "holder")
	var queue []<-chan result
	var processes []*redistoken.Issuer
	for n := range 4 {
		iss := closing(t, &redistoken.Issuer{Client: client, Prefix: prefix})
		processes = append(processes, iss)
		queue = append(queue, startWait(t.Context(), t, iss, client, fmt.Sprint("waiter-", n), long))
	}
	require.NoError(t, (&redistoken.Issuer{Client: client, Prefix: prefix}).Release(t.Context(), last))
	for n, got := range queue {
		grant := awaitGrant(t, got)
		require.Equal(t, fmt.Sprint("waiter-", n), grant.Token.Holder)
		require.Greater(t, grant.Token.Number, last.Number)
		last = grant.Token
		require.NoError(t, processes[n].Release(t.Context(), last))
	}
	require.Zero(t, client.Exists(t.Context(), queueKey(prefix, resource), lockKey(prefix, resource)).Val())
}

func TestAWaiterWhoseProcessIsGoneIsPassedOver(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	holder := &redistoken.Issuer{Client: client, Prefix: prefix}
	tok := acquire(t, holder, "holder")
	dead := closing(t, &redistoken.Issuer{Client: client, Prefix: prefix})
	gone, die := context.WithCancelCause(t.Context())
	got := startWait(gone, t, dead, client, "dead", long)
	member := client.ZRangeWithScores(t.Context(), queueKey(prefix, resource), 0, 0).Val()[0]
	channel := channelOf(t, client, prefix)
	die(errors.New("killed"))
	require.Error(t, (<-got).err)
	require.NoError(t, dead.Close())
	require.Eventually(t, func() bool { // until the server has detected that the connection is closed
		return client.PubSubNumSub(t.Context(), channel).Val()[channel] == 0
	}, testTimeout, time.Millisecond)
	// A process that is killed does not leave the queue.
	require.NoError(t, client.ZAdd(t.Context(), queueKey(prefix, resource), member).Err())
	alive := startWait(t.Context(), t, closing(t, &redistoken.Issuer{Client: client, Prefix: prefix}), client, "alive", long)

	require.NoError(t, holder.Release(t.Context(), tok))
	require.Equal(t, "alive", awaitGrant(t, alive).Token.Holder)

	t.Run("a release that does not count the subscribers waits for the dead", func(t *testing.T) {
		const naive = `redis.call('SET', KEYS[1], ARGV[1], 'PX', 60000)
			redis.call('PUBLISH', ARGV[2], ARGV[1])
			return redis.call('GET', KEYS[1])`
		require.Equal(t, "dead", run(t, client, naive, []string{prefix + ":naive"}, "dead", prefix+":handoff:dead"))
	})
}

func TestAServerThatTakesNoSubscriptionIsNotWaitedAt(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	admin := server.Client()
	noChannels := []any{"ACL", "SETUSER", "nochannels", "on", ">secret", "~*", "+@all", "resetchannels"}
	require.NoError(t, admin.Do(t.Context(), noChannels...).Err())
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "nochannels", Password: "secret"})
	defer client.Close()
	iss := closing(t, &redistoken.Issuer{Client: client})
	acquire(t, iss, "holder")
	_, err := iss.Wait(t.Context(), resource, "waiter", long)
	require.ErrorContains(t, err, "NOPERM")
	require.NotErrorIs(t, err, token.ErrHeld)
}

func TestAWaitThatTheServerRefusesIsNoContention(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	admin := server.Client()
	require.NoError(t, admin.Do(t.Context(), "ACL", "SETUSER", "some", "on", ">secret", "~*", "&*", "+@all").Err())
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "some", Password: "secret"})
	defer client.Close()
	iss := closing(t, &redistoken.Issuer{Client: client})
	acquire(t, &redistoken.Issuer{Client: admin}, "holder")
	got := startWait(t.Context(), t, iss, admin, "waiter", long)
	require.NoError(t, admin.Do(t.Context(), "ACL", "SETUSER", "some", "-evalsha").Err())
	var err error
	require.Eventually(t, func() bool {
		redistoken.PollNow(iss)
		select {
		case r := <-got:
			err = r.err
		default:
		}
		return err != nil
	}, testTimeout, time.Millisecond)
	require.ErrorContains(t, err, "NOPERM")
	require.NotErrorIs(t, err, token.ErrHeld)
}

func TestWaitGoesOnThroughARestartOfTheServer(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	iss := closing(t, &redistoken.Issuer{Client: server.Client()})
	first := acquire(t, iss, "holder")
	got := startWait(t.Context(), t, iss, server.Client(), "waiter", long)
	server.Kill()
	server.Restart()
	// hazard R2: what was held is free, since nothing was kept
	second := awaitGrant(t, got).Token
	require.Greater(t, second.Number, first.Number)
	require.ErrorIs(t, iss.Release(t.Context(), first), token.ErrLost)
	require.NoError(t, iss.Release(t.Context(), second))
	require.Greater(t, cycle(t, iss, "next").Number, second.Number)
}

// hazard R10
func TestWaitEndsWithItsContextThoughTheServerHangs(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	iss := closing(t, &redistoken.Issuer{Client: server.Client()})
	acquire(t, iss, "holder")
	cause := errors.New("the caller has gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	got := startWait(ctx, t, iss, server.Client(), "waiter", 3*time.Second)
	server.Pause()
	cancel(cause)
	err := within(t, got, "Wait has not returned after its context ended").err
	require.ErrorIs(t, err, cause)
	require.ErrorContains(t, err, "leaving the queue failed")
	require.ErrorIs(t, err, token.ErrUnreachable)
	require.NotErrorIs(t, err, token.ErrHeld)
	server.Resume()
	emptied(t, server.Client(), "holder")
}

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
	require.Equal(t, "mine", client.Get(t.Context(), lockKey(prefix, resource)).Val(), "nothing was released")

	got := startWait(t.Context(), t, iss, client, "waiter", long) // from here on there is a subscription
	require.NoError(t, iss.Release(t.Context(), mine))
	require.NoError(t, iss.Release(t.Context(), awaitGrant(t, got).Token))
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
	got := startWait(t.Context(), t, closing(t, &redistoken.Issuer{Client: client}), admin, "waiter", long)

	user("") // which ends the subscription
	require.Eventually(t, func() bool {
		refused, err := admin.Do(t.Context(), "ACL", "LOG").Slice()
		return err == nil && len(refused) > 0
	}, testTimeout, 5*time.Millisecond, "it tries in vain")
	user("&*")
	require.Eventually(t, func() bool {
		return len(admin.PubSubChannels(t.Context(), "*").Val()) == 1
	}, testTimeout, 10*time.Millisecond, "the waiter could not be notified")
	require.NoError(t, holder.Release(t.Context(), tok))
	require.Equal(t, "waiter", awaitGrant(t, got).Token.Holder)
}

func TestExpiredLeasesAreForgottenThoughNotificationsKeepComing(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	client := server.Client()
	iss := closing(t, &redistoken.Issuer{Client: client})
	redistoken.SetIdleTimeout(iss, 400*time.Millisecond)
	tok := acquire(t, iss, "holder")
	got := startWait(t.Context(), t, iss, client, "waiter", long)
	channel := channelOf(t, client, "fencepost")
	require.NoError(t, iss.Release(t.Context(), tok))
	waiter := awaitGrant(t, got).Token
	require.Equal(t, 1, redistoken.HeldCount(iss))
	_, err := iss.Renew(t.Context(), waiter, time.Millisecond) // as a Locker with HoldAtLeast does, instead of Release
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		require.NoError(t, client.Publish(t.Context(), channel, "for another").Err())
		return redistoken.HeldCount(iss) == 0
	}, testTimeout, 5*time.Millisecond)
}

func TestStressASubscriptionAtADemotedServerIsNotTrusted(t *testing.T) {
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
	first := startWait(t.Context(), t, closing(t, &redistoken.Issuer{Client: client}), one.Client(), "first", long)
	require.Eventually(t, func() bool {
		return two.Client().ZCard(t.Context(), queueKey("fencepost", resource)).Val() == 1
	}, testTimeout, time.Millisecond)
	two.Promote()
	one.ReplicaOf(two)
	addr.Store(two.Addr())
	other := closing(t, &redistoken.Issuer{Client: two.Client()})
	second := startWait(t.Context(), t, other, two.Client(), "second", long)
	require.Eventually(t, func() bool {
		return len(one.Client().PubSubChannels(t.Context(), "*").Val()) == 0
	}, testTimeout, 10*time.Millisecond, "it must follow the master")
	require.Eventually(t, func() bool {
		return len(two.Client().PubSubChannels(t.Context(), "*").Val()) == 2
	}, testTimeout, 10*time.Millisecond)
	require.NoError(t, (&redistoken.Issuer{Client: two.Client()}).Release(t.Context(), tok))
	grants := make(chan result, 2)
	for _, got := range []<-chan result{first, second} {
		go func() { grants <- <-got }()
	}
	awaitGrant(t, grants)
	select {
	case r := <-grants:
		t.Fatalf("two waiters have the lock: %v, %v", r.Grant, r.err)
	case <-time.After(900 * time.Millisecond):
	}
}

func TestCloseEndsWaitingAndNothingElse(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	iss := &redistoken.Issuer{Client: client, Prefix: prefix}
	require.NoError(t, iss.Close(), "before any Wait")
	_, err := iss.Wait(t.Context(), resource, "free", long)
	require.NoError(t, err, "a Wait that does not have to wait")

	iss = &redistoken.Issuer{Client: client, Prefix: prefix}
	got := startWait(t.Context(), t, iss, client, "waiter", long)
	require.NoError(t, iss.Close())
	err = (<-got).err
	require.ErrorIs(t, err, redistoken.ErrClosed)
	require.NotErrorIs(t, err, token.ErrHeld)
	require.Zero(t, client.Exists(t.Context(), queueKey(prefix, resource)).Val(), "it has left the queue")
	_, err = iss.Wait(t.Context(), resource, "later", long)
	require.ErrorIs(t, err, redistoken.ErrClosed)
	require.NoError(t, iss.Close(), "again")

	free := token.Token{Resource: resource, Number: 1, Holder: "free"}
	_, err = iss.Renew(t.Context(), free, long)
	require.NoError(t, err)
	require.NoError(t, iss.Release(t.Context(), free))
	cycle(t, iss, "after")
}

func TestSubscriptionsEndWithoutWaiters(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	client := server.Client()
	iss := closing(t, &redistoken.Issuer{Client: client})
	redistoken.SetIdleTimeout(iss, 40*time.Millisecond)
	subscribed := func() int { return len(client.PubSubChannels(t.Context(), "*").Val()) }
	for range 2 { // leaves and joins again
		tok := acquire(t, iss, "holder")
		got := startWait(t.Context(), t, iss, client, "waiter", long)
		require.Eventually(t, func() bool { return subscribed() == 1 }, testTimeout, time.Millisecond)
		require.NoError(t, iss.Release(t.Context(), tok))
		require.NoError(t, iss.Release(t.Context(), awaitGrant(t, got).Token))
		require.Eventually(t, func() bool { return subscribed() == 0 }, testTimeout, time.Millisecond)
	}
}
