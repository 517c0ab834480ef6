package redistoken_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
)

// result is what a Wait has returned.
type result struct {
	token.Grant
	err error
}

// waits lets holder wait, and returns when it stands in line in Redis, as the
// only one of its process.
func waits(
	ctx context.Context, t *testing.T, iss *redistoken.Issuer, client redis.UniversalClient, holder string, ttl time.Duration,
) <-chan result {
	t.Helper()
	prefix := iss.Prefix
	if prefix == "" {
		prefix = "fencepost"
	}
	before := client.ZCard(t.Context(), lineKey(prefix, resource)).Val()
	got := make(chan result, 1)
	go func() {
		grant, err := iss.Wait(ctx, resource, holder, ttl)
		got <- result{grant, err}
	}()
	require.Eventually(t, func() bool {
		return client.ZCard(t.Context(), lineKey(prefix, resource)).Val() == before+1
	}, time.Minute, time.Millisecond)
	return got
}

// handed returns what a Wait was granted.
func handed(t *testing.T, got <-chan result) token.Grant {
	t.Helper()
	select {
	case r := <-got:
		require.NoError(t, r.err)
		return r.Grant
	case <-time.After(time.Minute):
		require.FailNow(t, "the waiter was not served")
		return token.Grant{}
	}
}

func TestWaitersOfManyProcessesAreServedInTheOrderInWhichTheyAsked(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	last := acquire(t, &redistoken.Issuer{Client: client, Prefix: prefix}, "holder")
	var line []<-chan result
	var processes []*redistoken.Issuer
	for n := range 4 {
		iss := closing(t, &redistoken.Issuer{Client: client, Prefix: prefix})
		processes = append(processes, iss)
		line = append(line, waits(t.Context(), t, iss, client, fmt.Sprint("waiter-", n), long))
	}
	require.NoError(t, (&redistoken.Issuer{Client: client, Prefix: prefix}).Release(t.Context(), last))
	for n, got := range line {
		grant := handed(t, got)
		require.Equal(t, fmt.Sprint("waiter-", n), grant.Token.Holder)
		require.Greater(t, grant.Token.Number, last.Number)
		last = grant.Token
		require.NoError(t, processes[n].Release(t.Context(), last))
	}
	require.Zero(t, client.Exists(t.Context(), lineKey(prefix, resource), lockKey(prefix, resource)).Val())
}

func TestAWaiterWhoseProcessIsGoneIsPassedOver(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	holder := &redistoken.Issuer{Client: client, Prefix: prefix}
	tok := acquire(t, holder, "holder")
	dead := closing(t, &redistoken.Issuer{Client: client, Prefix: prefix})
	gone, die := context.WithCancelCause(t.Context())
	got := waits(gone, t, dead, client, "dead", long)
	member := client.ZRangeWithScores(t.Context(), lineKey(prefix, resource), 0, 0).Val()[0]
	die(errors.New("killed"))
	require.Error(t, (<-got).err)
	require.NoError(t, dead.Close())
	// A process that is killed leaves no line.
	require.NoError(t, client.ZAdd(t.Context(), lineKey(prefix, resource), member).Err())
	alive := waits(t.Context(), t, closing(t, &redistoken.Issuer{Client: client, Prefix: prefix}), client, "alive", long)

	require.NoError(t, holder.Release(t.Context(), tok))
	require.Equal(t, "alive", handed(t, alive).Token.Holder)

	t.Run("a release that does not count who heard it waits for the dead", func(t *testing.T) {
		const naive = `redis.call('SET', KEYS[1], ARGV[1], 'PX', 60000)
			redis.call('PUBLISH', ARGV[2], ARGV[1])
			return redis.call('GET', KEYS[1])`
		require.Equal(t, "dead", run(t, client, naive, []string{prefix + ":naive"}, "dead", prefix+":inbox:dead"))
	})
}

func TestAServerThatTakesNoSubscriptionIsNotWaitedAt(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	admin := server.Client()
	mute := []any{"ACL", "SETUSER", "mute", "on", ">secret", "~*", "+@all", "resetchannels"}
	require.NoError(t, admin.Do(t.Context(), mute...).Err())
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "mute", Password: "secret"})
	defer client.Close()
	iss := closing(t, &redistoken.Issuer{Client: client})
	acquire(t, iss, "holder")
	_, err := iss.Wait(t.Context(), resource, "waiter", long)
	require.ErrorContains(t, err, "NOPERM")
	require.ErrorIs(t, err, token.ErrHeld)
}

func TestWaitGoesOnThroughARestartOfTheServer(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	iss := closing(t, &redistoken.Issuer{Client: server.Client()})
	first := acquire(t, iss, "holder")
	got := waits(t.Context(), t, iss, server.Client(), "waiter", long)
	server.Kill()
	server.Restart()
	// hazard R2: what was held is free, since nothing was kept
	second := handed(t, got).Token
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
	got := waits(ctx, t, iss, server.Client(), "waiter", 3*time.Second)
	server.Pause()
	cancel(cause)
	select {
	case r := <-got:
		require.ErrorIs(t, r.err, cause)
		require.ErrorContains(t, r.err, "left behind", "it says that it could not leave")
	case <-time.After(time.Minute):
		t.Fatal("Wait goes on after its context")
	}
	server.Resume()
	emptied(t, server.Client(), "holder")
}
