package redistoken_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
)

// hazard R13
func TestNoWaiterIsNotifiedOfALockThatCouldNotBeSet(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	client := server.Client()
	holder := &redistoken.Issuer{Client: client}
	tok := acquire(t, holder, "holder")
	got := startWait(t.Context(), t, closing(t, &redistoken.Issuer{Client: client}), client, "waiter", long)
	messages := published(t, client, channelOf(t, client, "fencepost"))

	require.NoError(t, client.ConfigSet(t.Context(), "min-replicas-to-write", "1").Err())
	require.ErrorContains(t, holder.Release(t.Context(), tok), "NOREPLICAS")
	require.NoError(t, client.ConfigSet(t.Context(), "min-replicas-to-write", "0").Err())
	require.Empty(t, messages(), "the waiter must not be notified")
	require.Equal(t, "holder", client.Get(t.Context(), lockKey("fencepost", resource)).Val())
	require.NoError(t, holder.Release(t.Context(), tok))
	require.Equal(t, "waiter", awaitGrant(t, got).Token.Holder)
	require.NotEmpty(t, messages(), "this test must be able to receive")

	t.Run("published before it is set, it holds nothing", func(t *testing.T) {
		messages := published(t, client, "naive")
		require.NoError(t, client.ConfigSet(t.Context(), "min-replicas-to-write", "1").Err())
		naive := redis.NewScript(`redis.call('PUBLISH', ARGV[2], ARGV[1])
			return redis.call('SET', KEYS[1], ARGV[1], 'PX', 60000)`)
		require.ErrorContains(t, naive.Run(t.Context(), client, []string{"naive"}, "waiter", "naive").Err(), "NOREPLICAS")
		require.NoError(t, client.ConfigSet(t.Context(), "min-replicas-to-write", "0").Err())
		require.Contains(t, messages(), "waiter", "the waiter must be deceived")
		require.Zero(t, client.Exists(t.Context(), "naive").Val())
	})
}

// hazard R13
func TestALateNotificationGrantsNothing(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	client := server.Client()
	holder := &redistoken.Issuer{Client: client}
	tok := acquire(t, holder, "holder")
	var slow faults
	paused := closing(t, &redistoken.Issuer{Client: slow.client(t, server.Addr())})
	delayed := slow.hold(t)
	late := startWait(t.Context(), t, paused, client, "late", 300*time.Millisecond)
	channel := channelOf(t, client, "fencepost")
	messages := published(t, client, channel)
	next := startWait(t.Context(), t, closing(t, &redistoken.Issuer{Client: client}), client, "next", long)

	require.NoError(t, holder.Release(t.Context(), tok))
	// An Acquire finds the lease of "late" expired, and hands the lock to the next
	// waiter.
	require.Eventually(t, func() bool {
		_, err := holder.Acquire(t.Context(), resource, "passer-by", long)
		var held *token.HeldError
		return errors.As(err, &held) && held.Holder == "next"
	}, time.Minute, 10*time.Millisecond)
	third := awaitGrant(t, next)
	t.Run("anchored at its receipt, it is a lease while another holds", func(t *testing.T) {
		message := strings.Split(messages()[0], "\n")
		require.Equal(t, "late", message[2])
		number, err := strconv.ParseInt(message[0], 10, 64)
		require.NoError(t, err)
		naive := token.Grant{Token: token.Token{Resource: resource, Number: number, Holder: message[2]}}
		naive.Until = time.Now().Add(300 * time.Millisecond)
		var both history
		both.granted(third)
		both.granted(naive)
		require.NotEmpty(t, both.overlaps, "the naive waiter must take the lock")
		require.NotEmpty(t, both.falls, "with a number below the holder's")
	})
	delayed.let()
	allDelivered(t, client, channel)
	require.Zero(t, redistoken.HeldCount(paused), "the late notification must grant nothing")
	require.Equal(t, "next", client.Get(t.Context(), lockKey("fencepost", resource)).Val())
	require.NoError(t, holder.Release(t.Context(), third.Token))
	require.Greater(t, awaitGrant(t, late).Token.Number, third.Token.Number)
}

// hazard R13
func TestALateNotificationDoesNotReleaseALockInUse(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	client := server.Client()
	holder := &redistoken.Issuer{Client: client}
	paused, found, deliver := grantedByPoll(t, server)

	deliver()
	require.NoError(t, paused.Close(), "its background work has ended")
	require.Equal(t, "waiter", client.Get(t.Context(), lockKey("fencepost", resource)).Val())
	_, err := paused.Renew(t.Context(), found.Token, long)
	require.NoError(t, err)

	t.Run("a process that releases every lock without a waiter drops it", func(t *testing.T) {
		require.NoError(t, holder.Release(t.Context(), token.Token{Resource: resource, Number: 1, Holder: "waiter"}))
		_, err := paused.Renew(t.Context(), found.Token, long)
		require.ErrorIs(t, err, token.ErrLost, "the naive process must release the lock of its own holder")
	})
}

// A waiter renews its lease just before the end recorded in its process:
//
//  1. The server renews the lease, and the reply is on its way.
//  2. The end recorded in the process passes.
//  3. The notification of the hand-off arrives.
//
// hazard R13
func TestALateNotificationDoesNotReleaseALockWhoseRenewalIsUnderWay(t *testing.T) {
	t.Parallel()
	for name, renew := range map[string]func(iss *redistoken.Issuer, tok token.Token) error{
		"Renew": func(iss *redistoken.Issuer, tok token.Token) error {
			_, err := iss.Renew(t.Context(), tok, 2*long)
			return err
		},
		"RenewAll": func(iss *redistoken.Issuer, tok token.Token) error {
			batch := []token.Renewal{{Token: tok, TTL: 2 * long}}
			iss.RenewAll(t.Context(), batch)
			return batch[0].Err
		},
		"Acquire, again": func(iss *redistoken.Issuer, tok token.Token) error {
			_, err := iss.Acquire(t.Context(), tok.Resource, tok.Holder, 2*long)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testenv.OwnRedis(t)
			client, lock := server.Client(), lockKey("fencepost", resource)
			paused, found, deliver := grantedByPoll(t, server)
			replies := newReplyHook("waiter")
			paused.Client.AddHook(replies)
			renewed := start(t.Context(), func(context.Context) error { return renew(paused, found.Token) })
			<-replies.reached
			redistoken.PassEnd(paused, found.Until)
			require.Greater(t, client.PTTL(t.Context(), lock).Val(), long, "the server must have renewed the lease")

			deliver()
			close(replies.open)
			require.NoError(t, <-renewed)
			require.NoError(t, paused.Close(), "its background work has ended")
			require.Equal(t, "waiter", client.Get(t.Context(), lock).Val())
		})
	}
}

// grantedByPoll returns an issuer whose waiter was handed the lock and received the grant
// by a poll. deliver lets the notification arrive, and returns when it has been read.
func grantedByPoll(t *testing.T, server *testenv.RedisServer) (iss *redistoken.Issuer, found token.Grant, deliver func()) {
	t.Helper()
	client := server.Client()
	holder := &redistoken.Issuer{Client: client}
	tok := acquire(t, holder, "holder")
	var slow faults
	iss = closing(t, &redistoken.Issuer{Client: slow.client(t, server.Addr())})
	delayed := slow.hold(t)
	got := startWait(t.Context(), t, iss, client, "waiter", long)
	channel := channelOf(t, client, "fencepost")
	messages := published(t, client, channel)
	require.NoError(t, holder.Release(t.Context(), tok))
	found = awaitPolled(t, iss, got)
	require.Len(t, messages(), 1, "this test must hold a notification back")
	return iss, found, func() { delayed.let(); allDelivered(t, client, channel) }
}

// Two releases name the same waiter as the next. It is granted the lock by the second,
// and the first arrives after that.
//
// hazard R13
func TestAReleaseThatArrivesLateLeavesNoWaiterBehind(t *testing.T) {
	t.Parallel()
	for name, isHeld := range map[string]bool{"the waiter has the lock": true, "the waiter has released it": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			releasedLate(t, isHeld)
		})
	}
}

func releasedLate(t *testing.T, isHeld bool) {
	t.Helper()
	server := testenv.OwnRedis(t)
	other := &redistoken.Issuer{Client: server.Client()}
	tok := acquire(t, other, "holder")
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: time.Minute})
	t.Cleanup(func() { client.Close() })
	iss := closing(t, &redistoken.Issuer{Client: client})
	ctx, leave := context.WithCancel(t.Context())
	first := startWait(ctx, t, iss, client, "first", long)
	second := make(chan result, 1)
	go func() {
		grant, err := iss.Wait(t.Context(), resource, "second", long)
		second <- result{grant, err}
	}()
	require.Eventually(t, func() bool { return redistoken.WaiterCount(iss) == 2 }, testTimeout, time.Millisecond)

	requests := &requestHook{replyHook: newReplyHook("first")}
	client.AddHook(requests)
	leave()
	<-requests.reached
	require.NoError(t, other.Release(t.Context(), tok), "the lock is handed to a waiter that has left")
	grant := awaitGrant(t, second)
	if !isHeld {
		require.NoError(t, iss.Release(t.Context(), grant.Token))
	}
	close(requests.open)
	require.ErrorIs(t, (<-first).err, context.Canceled)
	require.Eventually(t, func() bool {
		return client.ZCard(t.Context(), queueKey("fencepost", resource)).Val() == 0
	}, testTimeout, time.Millisecond, "the waiter is in the queue in Redis, and would be handed the lock again")
	require.Equal(t, map[bool]int64{true: 1}[isHeld], client.Exists(t.Context(), lockKey("fencepost", resource)).Val())
}

// A waiter was handed the lock, and received the grant by a poll. Its process learns of the
// hand-off while the waiter's release is on its way. A release of the process's own would
// arrive first, on another connection, and the waiter would be told that its lease was lost.
//
// hazard R13
func TestAHolderReleasesItsOwnLock(t *testing.T) {
	t.Parallel()
	t.Run("the notification is late", func(t *testing.T) {
		t.Parallel()
		iss, grant, deliver := grantedByPoll(t, testenv.OwnRedis(t))
		requests := &requestHook{replyHook: newReplyHook("waiter")}
		iss.Client.AddHook(requests)
		released := start(t.Context(), func(ctx context.Context) error { return iss.Release(ctx, grant.Token) })
		<-requests.reached
		deliver()
		require.NoError(t, iss.Close(), "its background work has ended")
		close(requests.open)
		require.NoError(t, <-released)
		require.Zero(t, redistoken.HeldCount(iss))
	})
	t.Run("the lock is handed over again, to a waiter that has left", func(t *testing.T) {
		t.Parallel()
		server := testenv.OwnRedis(t)
		iss, grant, deliver := grantedByPoll(t, server)
		requests := &requestHook{replyHook: newReplyHook("waiter")}
		iss.Client.AddHook(requests)
		released := start(t.Context(), func(ctx context.Context) error { return iss.Release(ctx, grant.Token) })
		<-requests.reached
		client, lock := server.Client(), lockKey("fencepost", resource)
		again := fmt.Sprintf("%d\n%d\nwaiter\n%s", grant.Token.Number+1, time.Now().UnixMicro(), lock)
		channels := client.PubSubChannels(t.Context(), "fencepost:handoff:*").Val()
		require.Len(t, channels, 1)
		require.NoError(t, client.Publish(t.Context(), channels[0], again).Err())
		deliver()
		require.NoError(t, iss.Close(), "its background work has ended")
		require.Zero(t, client.Exists(t.Context(), lock).Val(), "only its process can free it before the ttl has passed")
		close(requests.open)
		require.ErrorIs(t, <-released, token.ErrLost)
	})
	t.Run("the reply to the release that handed it over is late", func(t *testing.T) {
		t.Parallel()
		server := testenv.OwnRedis(t)
		tok := acquire(t, &redistoken.Issuer{Client: server.Client()}, "holder")
		client := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: time.Minute})
		t.Cleanup(func() { client.Close() })
		handedOver, requests := newReplyHook("holder"), &requestHook{replyHook: newReplyHook("waiter")}
		iss := closing(t, &redistoken.Issuer{Client: client})
		got := startWait(t.Context(), t, iss, server.Client(), "waiter", long)
		client.AddHook(handedOver)
		client.AddHook(requests)
		first := start(t.Context(), func(ctx context.Context) error { return iss.Release(ctx, tok) })
		<-handedOver.reached
		grant := awaitPolled(t, iss, got)
		released := start(t.Context(), func(ctx context.Context) error { return iss.Release(ctx, grant.Token) })
		<-requests.reached
		close(handedOver.open)
		require.NoError(t, <-first)
		close(requests.open)
		require.NoError(t, <-released)
		require.Zero(t, redistoken.HeldCount(iss))
	})
}

// requestHook blocks the first release with an argument before it is sent.
type requestHook struct {
	*replyHook
	first atomic.Bool
}

func (h *requestHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if redistoken.IsRelease(cmd) && slices.Contains(cmd.Args(), h.arg) && h.first.CompareAndSwap(false, true) {
			close(h.reached)
			<-h.open
		}
		return next(ctx, cmd)
	}
}

// The reply to a release arrives after the lease that it hands over has ended.
func TestAReplyToAReleaseMayBeLaterThanTheHandOff(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: time.Minute})
	t.Cleanup(func() { client.Close() })
	iss := closing(t, &redistoken.Issuer{Client: client})
	tok := acquire(t, iss, "holder")
	got := startWait(t.Context(), t, iss, client, "first", 300*time.Millisecond)
	second := start(t.Context(), func(ctx context.Context) error {
		_, err := iss.Wait(ctx, resource, "second", long)
		return err
	})
	require.Eventually(t, func() bool { return redistoken.WaiterCount(iss) == 2 }, testTimeout, time.Millisecond)
	replies := newReplyHook("holder")
	client.AddHook(replies)
	released := start(t.Context(), func(ctx context.Context) error { return iss.Release(ctx, tok) })
	<-replies.reached
	time.Sleep(500 * time.Millisecond)
	close(replies.open)
	require.NoError(t, <-released)
	require.NoError(t, (<-got).err)
	require.NoError(t, <-second, "it polls when the first one's lease has ended")
}

// The holder waits again behind another waiter of its process, whose poll has no reply yet.
func TestAHolderDoesNotWaitForItselfBehindAnotherWaiter(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: time.Minute})
	t.Cleanup(func() { client.Close() })
	iss := closing(t, &redistoken.Issuer{Client: client})
	tok := acquire(t, iss, "holder")
	polled := newReplyHook((5 * time.Minute).Milliseconds()) // the queue's expiry, which a poll has
	client.AddHook(polled)
	var again token.Grant
	wait := func(holder string, into *token.Grant) <-chan error {
		return start(t.Context(), func(ctx context.Context) (err error) {
			*into, err = iss.Wait(ctx, resource, holder, long)
			return err
		})
	}
	var next token.Grant
	other := wait("other", &next)
	<-polled.reached
	own := wait("holder", &again)
	require.Eventually(t, func() bool { return redistoken.WaiterCount(iss) == 2 }, testTimeout, time.Millisecond)
	close(polled.open)
	require.NoError(t, within(t, own, "the holder waits for itself"))
	require.GreaterOrEqual(t, again.Token.Number, tok.Number)
	require.NoError(t, iss.Release(t.Context(), again.Token))
	require.NoError(t, <-other)
	require.Greater(t, next.Token.Number, again.Token.Number)
}

// replyHook blocks the reply of the first script with an argument.
type replyHook struct {
	hook
	arg           any
	once          sync.Once
	reached, open chan struct{}
}

func newReplyHook(arg any) *replyHook {
	return &replyHook{arg: arg, reached: make(chan struct{}), open: make(chan struct{})}
}

func (h *replyHook) hold(cmd redis.Cmder, err error) {
	if slices.Contains(cmd.Args(), h.arg) && (err == nil || !redis.HasErrorPrefix(err, "NOSCRIPT")) {
		h.once.Do(func() { close(h.reached); <-h.open })
	}
}

func (h *replyHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		h.hold(cmd, err)
		return err
	}
}

func (h *replyHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		h.hold(cmds[0], cmds[0].Err())
		return err
	}
}

// allDelivered returns when the process of channel has read everything published there:
// it then releases a lock for which it has no waiter.
func allDelivered(t *testing.T, client *redis.Client, channel string) {
	t.Helper()
	lock := lockKey("fencepost", "another resource")
	require.NoError(t, client.Set(t.Context(), lock, "unknown", 0).Err())
	require.Eventually(t, func() bool { // again if the subscription has broken in the meantime
		require.NoError(t, client.Publish(t.Context(), channel, "1\n1\nunknown\n"+lock).Err())
		return client.Exists(t.Context(), lock).Val() == 0
	}, testTimeout, 5*time.Millisecond)
}

// hazard R9
func TestAServerClockSetForwardDoesNotLengthenAGrant(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	acquire(t, &redistoken.Issuer{Client: client, Prefix: prefix}, "holder")
	iss := closing(t, &redistoken.Issuer{Client: client, Prefix: prefix})
	got := startWait(t.Context(), t, iss, client, "waiter", 3*time.Second)
	asked := int64(client.ZRangeWithScores(t.Context(), queueKey(prefix, resource), 0, 0).Val()[0].Score)
	// The server hands over after its clock was set forward by an hour.
	clock := time.Now().Add(time.Hour).UnixMicro()
	require.NoError(t, client.Set(t.Context(), lockKey(prefix, resource), "waiter", time.Second).Err())
	text := fmt.Sprintf("%d\n%d\nwaiter\n%s", clock/10, clock, lockKey(prefix, resource))
	require.EqualValues(t, 1, client.Publish(t.Context(), channelOf(t, client, prefix), text).Val())
	grant := awaitGrant(t, got)
	require.Equal(t, clock/10, grant.Token.Number, "the waiter must accept this test's notification")
	require.False(t, grant.Until.After(time.Now().Add(time.Second)), "the accept period, counted from now at the latest")

	since := time.Duration(clock-asked) * time.Microsecond
	naive := time.Now().Add(-time.Minute).Add(since) // if the waiter had polled a minute ago, counted by the server's clock only
	require.True(t, naive.After(time.Now().Add(time.Second)), "the naive waiter's lease must last for most of the hour")
}

// hazard R9
func TestNumbersAndTheQueueStayInOrderWhenTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	holder := &redistoken.Issuer{Client: client, Prefix: prefix}
	tok := acquire(t, holder, "holder")
	first := startWait(t.Context(), t, closing(t, &redistoken.Issuer{Client: client, Prefix: prefix}), client, "first", long)
	// At the first waiter's request, the clock was two hours ahead.
	queue, ahead := queueKey(prefix, resource), (2 * time.Hour).Microseconds()
	counter := clock() + ahead/10
	member := client.ZRange(t.Context(), queue, 0, 0).Val()[0]
	require.NoError(t, client.ZIncrBy(t.Context(), queue, float64(ahead), member).Err())
	require.NoError(t, client.Set(t.Context(), counterKey(prefix, resource), counter, 0).Err())
	second := startWait(t.Context(), t, closing(t, &redistoken.Issuer{Client: client, Prefix: prefix}), client, "second", long)

	require.NoError(t, holder.Release(t.Context(), tok))
	one := awaitGrant(t, first).Token
	require.Equal(t, counter+1, one.Number)
	require.NoError(t, holder.Release(t.Context(), one))
	two := awaitGrant(t, second).Token
	require.Greater(t, two.Number, one.Number)

	naive := prefix + ":naive"
	require.NoError(t, client.ZAdd(t.Context(), naive, redis.Z{Score: float64(time.Now().UnixMicro() + ahead), Member: "first"}).Err())
	require.NoError(t, client.ZAdd(t.Context(), naive, redis.Z{Score: float64(time.Now().UnixMicro()), Member: "second"}).Err())
	require.Equal(t, "second", client.ZRange(t.Context(), naive, 0, 0).Val()[0], "tickets from the clock alone must overtake the queue")
	require.Less(t, clock(), one.Number, "a number from the clock alone must fall")
}

// channelOf returns the channel of the only process in the queue.
func channelOf(t *testing.T, client *redis.Client, prefix string) string {
	t.Helper()
	members := client.ZRange(t.Context(), queueKey(prefix, resource), 0, -1).Val()
	require.Len(t, members, 1)
	return strings.SplitN(members[0], "\n", 3)[2][1:]
}

// published returns the messages published to channel since it was called.
func published(t *testing.T, client *redis.Client, channel string) func() []string {
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

func TestAHandOverCostsTwoCommandsAcrossProcessesAndOneWithin(t *testing.T) {
	t.Parallel()
	for name, processes := range map[string]int{"across processes": 4, "within one": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testenv.OwnRedis(t)
			want := map[int]int{4: 2, 1: 1}[processes]
			var all []*redistoken.Issuer
			for range processes {
				all = append(all, closing(t, &redistoken.Issuer{Client: server.Client()}))
			}
			const waiters, rounds = 4, 100
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			served := make(chan int, 1024)
			done := make(chan struct{}, waiters)
			for n := range waiters {
				go func() {
					defer func() { done <- struct{}{} }()
					for round := 0; ; round++ {
						grant, err := all[n%processes].Wait(ctx, resource, fmt.Sprintf("%d.%d", n, round), long)
						if err != nil {
							return
						}
						select {
						case served <- n:
						case <-ctx.Done():
						}
						allWait(ctx, server.Client(), all, waiters-1)
						_ = all[n%processes].Release(t.Context(), grant.Token)
					}
				}()
			}
			for range 5 * waiters {
				<-served
			}
			before := scripts(t, server.Client())
			for range rounds {
				<-served
			}
			spent := scripts(t, server.Client()) - before
			stop()
			for range waiters {
				<-done
			}
			require.InDelta(t, want*rounds, spent, float64(want*rounds)/10, "scripts for %d acquisitions", rounds)
		})
	}
}

// scripts returns how many scripts the server has run.
func scripts(t *testing.T, client *redis.Client) (calls int) {
	t.Helper()
	for _, line := range splitLines(client.Info(t.Context(), "commandstats").Val()) {
		if _, err := fmt.Sscanf(line, "cmdstat_evalsha:calls=%d", &calls); err == nil {
			return calls
		}
	}
	require.FailNow(t, "no statistics of evalsha")
	return 0
}
