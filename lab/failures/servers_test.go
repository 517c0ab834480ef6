package failures_test

import (
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/contrib/redisquorum"
	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
	"github.com/fencepost/fencepost/token/redistoken"
)

// system is an issuer's servers, which can fail.
type system struct {
	// issuer makes an issuer with connections of its own, as in another process.
	issuer func(t *testing.T) token.Issuer
	// depart makes the failure lose all later changes: it takes a snapshot, or cuts off a
	// replica. If it is nil, nothing is done.
	depart func()
	// fail causes the failure, and returns when the servers are back.
	fail func()
}

// place is the address of the current server for clients, as from Sentinel or a name
// server.
type place struct{ addr atomic.Pointer[string] }

func (p *place) move(addr string) { p.addr.Store(&addr) }

func (p *place) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, network, *p.addr.Load())
}

// manyErrors is a size that no pool reaches. After as many failed connects as the pool
// has places, go-redis waits a second before it connects again.
const manyErrors = 100_000

func (p *place) redis(t *testing.T) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: *p.addr.Load(), Dialer: p.dial, PoolSize: manyErrors})
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}

func (p *place) postgres(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	config.ConnConfig.DialFunc = p.dial
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// closed returns iss, and closes it at the end of the test if it has a Close method.
func closed(t *testing.T, iss token.Issuer) token.Issuer {
	t.Helper()
	if c, ok := iss.(io.Closer); ok {
		t.Cleanup(func() { require.NoError(t, c.Close()) })
	}
	return iss
}

var onPostgres = map[string]func(pool *pgxpool.Pool) token.Issuer{
	"rows": func(pool *pgxpool.Pool) token.Issuer { return &pgtoken.Issuer{DB: pool} },
}

// settings save time: a killed server loses nothing that it has written and not flushed,
// since the machine keeps running.
var settings = []string{"fsync=off"}

func TestStressPostgresIsKilledAndStartedAgain(t *testing.T) {
	for name, issuer := range onPostgres {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			survive(t, keeps, func(t *testing.T) system {
				server := testenv.OwnPostgres(t, settings...)
				testenv.Migrate(t, server.URL())
				var at place
				at.move(server.Addr())
				return system{
					issuer: func(t *testing.T) token.Issuer { t.Helper(); return closed(t, issuer(at.postgres(t, server.URL()))) },
					fail:   server.Restart,
				}
			})
		})
	}
}

// hazard P6
func TestStressAnAsynchronousStandbyIsPromoted(t *testing.T) {
	for name, issuer := range onPostgres {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			survive(t, forgets, func(t *testing.T) system { return promotedStandby(t, issuer) })
		})
	}
}

func promotedStandby(t *testing.T, issuer func(*pgxpool.Pool) token.Issuer) system {
	t.Helper()
	primary := testenv.OwnPostgres(t, settings...)
	testenv.Migrate(t, primary.URL())
	standby := primary.Standby(settings...)
	var at place
	at.move(primary.Addr())
	return system{
		issuer: func(t *testing.T) token.Issuer { t.Helper(); return closed(t, issuer(at.postgres(t, primary.URL()))) },
		depart: standby.CutOff,
		fail: func() { // for a moment there are two primaries
			standby.Promote()
			at.move(standby.Addr())
			primary.Kill()
		},
	}
}

// hazard R2
func TestStressRedisIsKilledAndStartedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		memory   memory
		settings []string
	}{
		"without persistence":       {forgets, nil},
		"RDB":                       {forgets, []string{"--save", "3600 1"}},
		"AOF, fsync every second":   {perhaps, []string{"--appendonly", "yes", "--appendfsync", "everysec"}},
		"AOF, fsync at every write": {keeps, []string{"--appendonly", "yes", "--appendfsync", "always"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			survive(t, c.memory, func(t *testing.T) system { return restarted(t, c.settings) })
		})
	}
}

func restarted(t *testing.T, settings []string) system {
	t.Helper()
	server := testenv.OwnRedis(t, settings...)
	s := onRedis(server)
	if len(settings) == 2 {
		s.depart = func() { require.NoError(t, server.Client().Save(t.Context()).Err()) }
	}
	s.fail = server.Restart
	return s
}

func onRedis(server *testenv.RedisServer) system {
	var at place
	at.move(server.Addr())
	return system{issuer: func(t *testing.T) token.Issuer {
		t.Helper()
		return closed(t, &redistoken.Issuer{Client: at.redis(t)})
	}}
}

// hazard R3
func TestStressRedisIsFlushed(t *testing.T) {
	t.Parallel()
	survive(t, forgets, func(t *testing.T) system {
		t.Helper()
		server := testenv.OwnRedis(t)
		s := onRedis(server)
		s.fail = func() { require.NoError(t, server.Client().FlushAll(t.Context()).Err()) }
		return s
	})
}

// hazard R1
func TestStressAReplicaThatWasCutOffIsPromoted(t *testing.T) {
	t.Parallel()
	survive(t, forgets, promotedReplica)
}

func promotedReplica(t *testing.T) system {
	t.Helper()
	master, replica := testenv.OwnRedis(t), testenv.OwnRedis(t)
	replica.ReplicaOf(master)
	var at place
	at.move(master.Addr())
	return system{
		issuer: func(t *testing.T) token.Issuer { t.Helper(); return closed(t, &redistoken.Issuer{Client: at.redis(t)}) },
		depart: replica.CutOff,
		// For a moment there are two masters: a client that is connected to the old
		// master stays with it until it is killed.
		fail: func() {
			replica.Promote()
			at.move(replica.Addr())
			master.Kill()
		},
	}
}

// hazard R1
func TestStressAClusterFailsOver(t *testing.T) {
	t.Parallel()
	survive(t, perhaps, failedOver)
}

func failedOver(t *testing.T) system {
	t.Helper()
	c := testenv.RedisCluster(t, 3, 1, "--cluster-node-timeout", "500")
	return system{
		issuer: func(t *testing.T) token.Issuer { t.Helper(); return closed(t, &redistoken.Issuer{Client: c.Client()}) },
		fail:   func() { c.Failover(bucket) },
	}
}

// bucket is a key in the slot of the resource.
var bucket = fmt.Sprintf("{%d}", crc32.ChecksumIEEE([]byte(resource))%256)

func TestStressAQuorumLosesAMinority(t *testing.T) {
	for name, lose := range map[string]func(q nodes, recovered func()){
		"for good": func(q nodes, _ func()) { q["a"].Kill() },
		// The numbers are only on c, and on a if they were sent to it after its restart.
		"and when that is back, without its memory, another": func(q nodes, recovered func()) {
			q["a"].Restart()
			recovered()
			q["b"].Restart()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			survive(t, keeps, func(t *testing.T) system {
				q := newNodes(t, 3)
				first := q.issuer(t)
				require.NoError(t, first.Bootstrap(t.Context()))
				return system{
					issuer: func(t *testing.T) token.Issuer { t.Helper(); return q.issuer(t) },
					fail:   func() { lose(q, func() { recovered(t, first) }) },
				}
			})
		})
	}
}

// nodes are the servers of a quorum, which store nothing on disk.
type nodes map[string]*testenv.RedisServer

func newNodes(t *testing.T, n int) nodes {
	t.Helper()
	all := nodes{}
	for i := range n {
		all[string(rune('a'+i))] = testenv.OwnRedis(t)
	}
	return all
}

func (all nodes) issuer(t *testing.T) *redisquorum.Issuer {
	t.Helper()
	iss := &redisquorum.Issuer{Nodes: map[string]redis.UniversalClient{}, MaxTTL: ttl}
	for name, server := range all {
		var at place
		at.move(server.Addr())
		iss.Nodes[name] = at.redis(t)
	}
	return iss
}

func recovered(t *testing.T, iss *redisquorum.Issuer) {
	t.Helper()
	require.Eventually(t, func() bool { return iss.Rejoin(t.Context()) == nil }, testTimeout, 10*time.Millisecond)
}

// hazard R1
// hazard P6
func TestWithoutAGuardTwoHoldersWriteUnderFallingNumbers(t *testing.T) {
	for name, start := range map[string]func(*testing.T) system{
		"a replica is promoted": promotedReplica,
		"a standby is promoted": func(t *testing.T) system { t.Helper(); return promotedStandby(t, onPostgres["rows"]) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRound(t, false)
			r.play(start(t), true)
			require.True(t, r.grants.fell(), "this round must force numbers that fall")
			require.True(t, falls(r.accepted()), "the naive store must be fooled")
			require.True(t, slices.ContainsFunc(r.broken(), func(v history.Violation) bool {
				return v.Rule.ID == "order" || v.Rule.ID == "holder"
			}), "the check must find it")
		})
	}
}

// forgetful is an issuer that cannot be recovered.
type forgetful struct{ token.Issuer }

// hazard R2
func TestWithoutRecoveryNoWriteSucceedsUntilTheClockHasCaughtUp(t *testing.T) {
	t.Parallel()
	s := restarted(t, nil)
	able := s.issuer
	s.issuer = func(t *testing.T) token.Issuer { t.Helper(); return &forgetful{able(t)} }
	r := newRound(t, true)
	paused, back := r.playToTheFailure(s, true)
	time.Sleep(time.Until(back.Add(promised)))
	require.Eventually(t, func() bool { return r.grants.count() > 10 }, testTimeout, time.Millisecond, "the lock is granted again and again")
	require.False(t, slices.ContainsFunc(r.all(), func(w write) bool { return w.at.After(back) && w.tok != paused }),
		"the numbers of half an hour ahead must be missed")
}
