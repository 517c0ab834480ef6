package failures_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
	"github.com/fencepost/fencepost/token/redistoken"
)

// outages are the issuers, each with servers of its own that can be ended and started
// again.
var outages = map[string]func(t *testing.T) (iss token.Issuer, end, start func()){
	"rows": func(t *testing.T) (token.Issuer, func(), func()) { return postgresOutage(t, "rows") },
	"Redis": func(t *testing.T) (token.Issuer, func(), func()) {
		server := testenv.OwnRedis(t)
		client := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1})
		t.Cleanup(func() { client.Close() })
		return closed(t, &redistoken.Issuer{Client: client}), server.Kill, server.Restart
	},
	"etcd": func(t *testing.T) (token.Issuer, func(), func()) {
		members := testenv.EtcdCluster(t)
		return onEtcd(t, members...), // one member is left, without a leader
			func() { members[0].Kill(); members[1].Kill() }, func() { members[0].Start(); members[1].Restart() }
	},
	"a quorum": func(t *testing.T) (token.Issuer, func(), func()) {
		all := nodes{}
		for _, name := range []string{"a", "b", "c"} {
			all[name] = testenv.OwnRedis(t, "--appendonly", "yes", "--appendfsync", "always")
		}
		iss := all.issuer(t)
		iss.Durable = true // otherwise the nodes would lose their memory
		require.NoError(t, iss.Bootstrap(t.Context()))
		return iss, func() { all["a"].Kill(); all["b"].Kill() }, func() { all["a"].Restart(); all["b"].Restart() }
	},
}

func postgresOutage(t *testing.T, name string) (iss token.Issuer, end, start func()) {
	server := testenv.OwnPostgres(t, settings...)
	testenv.Migrate(t, server.URL())
	var at place
	at.move(server.Addr())
	return closed(t, onPostgres[name](at.postgres(t, server.URL()))), server.Kill, server.Restart
}

// watched reports when the issuer could not be reached.
type watched struct {
	token.Issuer
	failed chan struct{}
}

func (w *watched) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	grant, err := w.Issuer.Acquire(ctx, resource, holder, ttl)
	return grant, w.note(err)
}

func (w *watched) note(err error) error {
	if errors.Is(err, token.ErrUnreachable) {
		select {
		case w.failed <- struct{}{}:
		default:
		}
	}
	return err
}

// watchedQueue is watched for an issuer with a queue.
type watchedQueue struct {
	*watched
	queue token.QueueIssuer
}

func (w watchedQueue) Wait(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	grant, err := w.queue.Wait(ctx, resource, holder, ttl)
	return grant, w.note(err)
}

func watch(iss token.Issuer) (watching token.Issuer, failed <-chan struct{}) {
	w := &watched{Issuer: iss, failed: make(chan struct{}, 1)}
	if queue, ok := iss.(token.QueueIssuer); ok {
		return watchedQueue{w, queue}, w.failed
	}
	return w, w.failed
}

func TestAnOutageIsWaitedOut(t *testing.T) {
	for name, begin := range outages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			iss, end, start := begin(t)
			iss, failed := watch(iss)
			locker := func(wait time.Duration) *lock.Locker {
				return &lock.Locker{Issuer: iss, TTL: ttl, WaitTimeout: wait, DangerouslyWithoutClaim: true}
			}
			before := acquired(locker(testTimeout))
			number := before.number(t)
			end()

			tried := locker(0)
			tried.NoWait = true
			require.ErrorIs(t, tried.Hold(t.Context(), resource, nothing), token.ErrUnreachable)
			unbounded := locker(0).Hold(context.WithoutCancel(t.Context()), resource, nothing)
			require.ErrorIs(t, unbounded, token.ErrUnreachable, "without a WaitTimeout the outage is returned at once")
			require.NotErrorIs(t, unbounded, lock.ErrWaitTimeout)
			select { // a signal that earlier calls have left
			case <-failed:
			default:
			}
			held := acquired(locker(testTimeout))
			<-failed
			start()
			require.Greater(t, held.number(t), number)
		})
	}
}

// acquisition is the acquisition of a lease that may expire, which happens on a busy
// machine.
type acquisition struct {
	done  chan struct{}
	lease *lock.Lease
	err   error
}

// acquired acquires in the background, and again if the grant has expired when it
// arrives.
func acquired(l *lock.Locker) *acquisition {
	a := &acquisition{done: make(chan struct{})}
	go func() {
		defer close(a.done)
		for a.lease == nil && (a.err == nil || errors.Is(a.err, token.ErrLost)) {
			a.lease, a.err = l.Acquire(context.Background(), resource)
		}
	}()
	return a
}

// number waits for the lease, releases it and returns its number.
func (a *acquisition) number(t *testing.T) int64 {
	t.Helper()
	<-a.done
	require.NoError(t, a.err)
	if err := a.lease.Release(t.Context()); !errors.Is(err, token.ErrLost) {
		require.NoError(t, err)
	}
	return a.lease.Token().Number
}

func nothing(context.Context) error { return nil }

// If the server is killed, a waiter in its queue joins the queue again.
func TestAWaiterOutlastsARestart(t *testing.T) {
	for name := range onPostgres {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			iss, end, start := postgresOutage(t, name)
			holder, err := iss.Acquire(t.Context(), resource, "holder", testTimeout) // no waiter is granted the lock before the kill
			require.NoError(t, err)
			watching, failed := watch(iss)
			held := acquired(&lock.Locker{Issuer: watching, TTL: ttl, WaitTimeout: testTimeout, DangerouslyWithoutClaim: true})
			end()
			<-failed
			start()
			for err := token.ErrUnreachable; err != nil && !errors.Is(err, token.ErrLost); { // lost by now
				err = iss.Release(t.Context(), holder.Token)
			}
			require.Greater(t, held.number(t), holder.Token.Number)
		})
	}
}

// An error that a retry cannot cure is returned at once.
func TestWhatIsNoOutageIsNotWaitedOut(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	config := pool.Config()
	config.ConnConfig.User = "no_such_role"
	stranger, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(stranger.Close)
	options, err := redis.ParseURL(testenv.RedisURL(t))
	require.NoError(t, err)
	options.Username, options.Password = "no_such_user", "wrong"
	client := redis.NewClient(options)
	t.Cleanup(func() { client.Close() })
	quorum := newNodes(t, 3).issuer(t) // not bootstrapped
	for name, iss := range map[string]token.Issuer{
		"rows, no schema":       closed(t, &pgtoken.Issuer{DB: pool, Schema: schema + "_missing"}),
		"rows, no role":         closed(t, &pgtoken.Issuer{DB: stranger, Schema: schema}),
		"Redis, no user":        closed(t, &redistoken.Issuer{Client: client}),
		"a quorum, not founded": quorum,
	} {
		t.Run(name, func(t *testing.T) {
			err := (&lock.Locker{Issuer: iss, WaitTimeout: time.Hour, DangerouslyWithoutClaim: true}).Hold(t.Context(), resource, nothing)
			require.Error(t, err)
			require.NotErrorIs(t, err, token.ErrUnreachable)
			require.NotErrorIs(t, err, lock.ErrWaitTimeout)
		})
	}
}
