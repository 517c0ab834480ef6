package redistoken_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
)

// hazard R1
func TestFailoverGrantsTheSameNumberTwice(t *testing.T) {
	t.Parallel()
	master, prefix := testenv.Redis(t)
	replica := testenv.OwnRedis(t).Client()
	key := counterKey(prefix, resource)
	// The counter is ahead of the clock, so that the clock has no effect.
	require.NoError(t, master.Set(t.Context(), key, clock()+360_000_000, 0).Err())
	// The replica is disconnected with its present data, and promoted later.
	dump, err := master.Dump(t.Context(), key).Result()
	require.NoError(t, err)
	require.NoError(t, replica.Restore(t.Context(), key, 0, dump).Err())

	before := acquire(t, &redistoken.Issuer{Client: master, Prefix: prefix}, "before")
	after := acquire(t, &redistoken.Issuer{Client: replica, Prefix: prefix}, "after")
	require.Equal(t, before.Number, after.Number, "this test must force equal numbers")

	t.Run("the holder beside the mark refuses the second holder", func(t *testing.T) {
		var store guard.Memory
		require.NoError(t, store.Admit(t.Context(), after))
		require.ErrorIs(t, store.Admit(t.Context(), before), guard.ErrCollision)
		require.NoError(t, store.Admit(t.Context(), after))
	})
	t.Run("a mark of the number alone lets both in", func(t *testing.T) {
		var mark int64
		admit := func(tok token.Token) bool {
			admitted := mark <= tok.Number
			mark = max(mark, tok.Number)
			return admitted
		}
		require.True(t, admit(after))
		require.True(t, admit(before), "the naive mark must be fooled")
	})
}

// hazard R11
func TestStressAGrantThatTooFewReplicasHaveIsGivenBack(t *testing.T) {
	t.Parallel()
	master, replica := testenv.OwnRedis(t), testenv.OwnRedis(t)
	replica.ReplicaOf(master)
	iss := closing(t, &redistoken.Issuer{Client: master.Client(), Replicas: 1})
	naive := &redistoken.Issuer{Client: master.Client()}
	first := confirmed(t, iss, "first")
	lock := lockKey("fencepost", resource)
	require.Equal(t, "first", replica.Client().Get(t.Context(), lock).Val(), "the replica has the grant")
	require.NoError(t, iss.Release(t.Context(), first))

	replica.Pause()
	_, err := iss.Acquire(t.Context(), resource, "second", long)
	require.ErrorIs(t, err, redistoken.ErrReplicas)
	require.ErrorContains(t, err, "0 of 1")
	require.NotErrorIs(t, err, token.ErrHeld)
	free := func() bool { return master.Client().Exists(t.Context(), lock).Val() == 0 }
	require.Eventually(t, free, testTimeout, time.Millisecond, "the grant was released")
	deceived := acquire(t, naive, "naive") // granted, although no replica has the grant

	t.Run("one that is handed over too", func(t *testing.T) {
		got := startWait(t.Context(), t, iss, master.Client(), "third", long)
		require.NoError(t, naive.Release(t.Context(), deceived))
		require.ErrorIs(t, (<-got).err, redistoken.ErrReplicas)
		require.Eventually(t, free, testTimeout, time.Millisecond, "the grant was released")
	})
	replica.Resume()
	require.Greater(t, confirmed(t, iss, "fourth").Number, deceived.Number)
}

// confirmed acquires, and retries if the replicas took longer than a second.
func confirmed(t *testing.T, iss *redistoken.Issuer, holder string) (tok token.Token) {
	t.Helper()
	var err error
	require.Eventually(t, func() bool {
		var grant token.Grant
		grant, err = iss.Acquire(t.Context(), resource, holder, long)
		tok = grant.Token
		return !errors.Is(err, redistoken.ErrReplicas)
	}, testTimeout, time.Millisecond)
	require.NoError(t, err)
	return tok
}

// refusals is an Issuer that reports the first error of its waiters.
type refusals struct {
	*redistoken.Issuer
	errs chan error
}

func (r *refusals) Wait(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	grant, err := r.Issuer.Wait(ctx, resource, holder, ttl)
	select {
	case r.errs <- err:
	default:
	}
	return grant, err
}

func TestAWaitSurvivesAServerThatRefusesWrites(t *testing.T) {
	t.Parallel()
	for kind, refuses := range map[string]func(t *testing.T, client *redis.Client) (heal func()){
		"NOREPLICAS": func(t *testing.T, client *redis.Client) func() {
			require.NoError(t, client.ConfigSet(t.Context(), "min-replicas-to-write", "1").Err())
			return func() { require.NoError(t, client.ConfigSet(t.Context(), "min-replicas-to-write", "0").Err()) }
		},
		"MISCONF": func(t *testing.T, client *redis.Client) func() {
			folder, err := client.ConfigGet(t.Context(), "dir").Result()
			require.NoError(t, err)
			file := filepath.Join(folder["dir"], "dump.rdb")
			require.NoError(t, os.MkdirAll(filepath.Join(file, "in the way"), 0o700))
			require.NoError(t, client.ConfigSet(t.Context(), "save", "3600 1").Err())
			saves := func(status string) {
				require.NoError(t, client.BgSave(t.Context()).Err())
				require.Eventually(t, func() bool {
					return strings.Contains(client.Info(t.Context(), "persistence").Val(), "rdb_last_bgsave_status:"+status)
				}, testTimeout, 5*time.Millisecond)
			}
			saves("err")
			return func() { require.NoError(t, os.RemoveAll(file)); saves("ok") }
		},
		"OOM": func(t *testing.T, client *redis.Client) func() {
			require.NoError(t, client.ConfigSet(t.Context(), "maxmemory", "1").Err())
			return func() { require.NoError(t, client.ConfigSet(t.Context(), "maxmemory", "0").Err()) }
		},
		"BUSY": func(t *testing.T, client *redis.Client) func() {
			require.NoError(t, client.ConfigSet(t.Context(), "lua-time-limit", "1").Err())
			ended := make(chan error, 1)
			go func() { ended <- client.Eval(context.WithoutCancel(t.Context()), "while true do end", nil).Err() }()
			require.Eventually(t, func() bool { return redis.HasErrorPrefix(client.Ping(t.Context()).Err(), "BUSY") }, testTimeout, time.Millisecond)
			return func() {
				require.NoError(t, client.ScriptKill(t.Context()).Err())
				require.ErrorContains(t, <-ended, "killed")
			}
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			client := testenv.OwnRedis(t).Client()
			waiter := &refusals{closing(t, &redistoken.Issuer{Client: client}), make(chan error, 1)}
			heal := refuses(t, client)
			locker := &lock.Locker{Issuer: waiter, WaitTimeout: long, DangerouslyWithoutClaim: true}
			held := make(chan error, 1)
			go func() { held <- locker.Hold(t.Context(), resource, func(context.Context) error { return nil }) }()
			err := <-waiter.errs
			require.ErrorIs(t, err, token.ErrUnreachable)
			require.ErrorContains(t, err, kind+" ")
			heal()
			require.NoError(t, <-held)
		})
	}
}

// hazard R11
func TestWaitIsNoConsensus(t *testing.T) {
	t.Parallel()
	master, near, far := testenv.OwnRedis(t), testenv.OwnRedis(t), testenv.OwnRedis(t)
	near.ReplicaOf(master)
	far.ReplicaOf(master)
	iss := &redistoken.Issuer{Client: master.Client(), Replicas: 1}
	require.NoError(t, iss.Release(t.Context(), confirmed(t, iss, "earlier")))
	far.CutOff()
	before := confirmed(t, iss, "before") // near has the grant
	far.Promote()                         // but far becomes the master
	after := acquire(t, &redistoken.Issuer{Client: far.Client()}, "after")
	require.Greater(t, after.Number, before.Number, "the clock is ahead of what was lost")

	// The resource now has two holders. A guard keeps their writes in order.
	var store guard.Memory
	require.NoError(t, store.Admit(t.Context(), before))
	require.NoError(t, store.Admit(t.Context(), after))
	require.ErrorIs(t, store.Admit(t.Context(), before), guard.ErrStale)
}

func TestStressWaitersBehindASentinelSurviveAFailover(t *testing.T) {
	t.Parallel()
	master, replica := testenv.OwnRedis(t), testenv.OwnRedis(t)
	replica.ReplicaOf(master)
	client := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "main", SentinelAddrs: []string{sentinel(t, master)}})
	defer client.Close()
	iss := closing(t, &redistoken.Issuer{Client: client})
	dying := acquire(t, iss, "dying")
	got := startWait(t.Context(), t, iss, client, "waiter", long)
	master.Kill()
	expire(t, client, lockKey("fencepost", resource), "dying")
	next := awaitPolled(t, iss, got).Token
	require.Greater(t, next.Number, dying.Number)

	again := startWait(t.Context(), t, closing(t, &redistoken.Issuer{Client: client}), client, "again", long)
	require.Equal(t, replica.Addr(), masterOf(t, client))
	require.NoError(t, iss.Release(t.Context(), next))
	require.Greater(t, awaitGrant(t, again).Token.Number, next.Number)
}

// expire ends holder's lease at the server that has become the master, as its expiry
// would.
func expire(t *testing.T, client redis.UniversalClient, lock, holder string) {
	t.Helper()
	const del = `return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1])`
	require.Eventually(t, func() bool {
		err := client.Eval(t.Context(), del, []string{lock}, holder).Err()
		return err == nil || errors.Is(err, redis.Nil)
	}, testTimeout, 20*time.Millisecond)
}

// sentinel starts a sentinel for master, and returns its address when it has found the
// replica.
func sentinel(t *testing.T, master *testenv.RedisServer) string {
	t.Helper()
	addr := testenv.Sentinel(t, master)
	own := redis.NewSentinelClient(&redis.Options{Addr: addr})
	defer own.Close()
	require.Eventually(t, func() bool {
		info, err := own.Master(t.Context(), "main").Result()
		return err == nil && info["num-slaves"] == "1"
	}, testTimeout, 20*time.Millisecond)
	return addr
}

// masterOf returns the address of the server to which client is connected.
func masterOf(t *testing.T, client *redis.Client) string {
	t.Helper()
	port, err := client.ConfigGet(t.Context(), "port").Result()
	require.NoError(t, err)
	return net.JoinHostPort("127.0.0.1", port["port"])
}
