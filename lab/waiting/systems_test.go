package waiting_test

import (
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/netfault"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
	"github.com/fencepost/fencepost/token/pgtoken"
	"github.com/fencepost/fencepost/token/redistoken"
)

// queueIssuer is an issuer that serves its waiters in turn.
type queueIssuer interface {
	token.Issuer
	token.QueueIssuer
}

// client is one process's connection to the issuer.
type client struct {
	queueIssuer
	name  string
	proxy *netfault.Proxy // nil if there is no server
	close func()          // closes what the client opened, as at the end of a program
}

// system is an issuer with its server.
type system struct {
	connect func(t *testing.T, name string) *client
	// dropNotifications ends the session on which a client receives hand-offs.
	dropNotifications func(name string) error
	// queued returns how many waiters the server has in the queue of resource, or -1 if
	// that cannot be observed.
	queued func(resource string) (int, error)
	// left returns what is left of resource after all clients have gone.
	left func(resource string) ([]string, error)
	// sessions counts the connections of clients whose names have this prefix.
	sessions func(prefix string) (int, error)
	// early is true if a lease can end early, with its connection.
	early bool
	// one is true if the waiters of one client share one entry of the queue.
	one bool
}

func proxied(t *testing.T, server string) *netfault.Proxy {
	t.Helper()
	p, err := netfault.Start(server)
	require.NoError(t, err)
	return p
}

func onRedis(t *testing.T) *system {
	admin, prefix := testenv.Redis(t)
	base := func(resource string) string {
		return prefix + ":{" + strconv.Itoa(int(crc32.ChecksumIEEE([]byte(resource))%256)) + "}:"
	}
	t.Cleanup(func() { redisKeepsCountersOnly(t, admin, prefix) })
	named := func(name, kind string) (ids []string, err error) {
		list, err := admin.Do(context.Background(), "CLIENT", "LIST", "TYPE", kind).Text()
		for line := range strings.Lines(list) {
			if strings.Contains(line, " name="+name) {
				id, _, _ := strings.Cut(strings.TrimPrefix(line, "id="), " ")
				ids = append(ids, id)
			}
		}
		return ids, err
	}
	return &system{
		one: true,
		connect: func(t *testing.T, name string) *client {
			p := proxied(t, admin.Options().Addr)
			c := redis.NewClient(&redis.Options{Addr: p.Addr(), ClientName: name, PoolSize: 64})
			iss := &redistoken.Issuer{Client: c, Prefix: prefix}
			return &client{iss, name, p, func() { assert.NoError(t, iss.Close()); _ = c.Close(); p.Close() }}
		},
		dropNotifications: func(name string) error {
			ids, err := named(name+" ", "pubsub")
			for _, id := range ids {
				admin.Do(context.Background(), "CLIENT", "KILL", "ID", id) // it may have ended
			}
			return err
		},
		queued: func(resource string) (int, error) {
			n, err := admin.ZCard(context.Background(), base(resource)+"queue:"+resource).Result()
			return int(n), err
		},
		left: func(resource string) (left []string, err error) {
			lock, err := admin.Get(context.Background(), base(resource)+"lock:"+resource).Result()
			if err == nil {
				left = append(left, "lock of "+lock)
			}
			queued, err := admin.ZRange(context.Background(), base(resource)+"queue:"+resource, 0, -1).Result()
			return append(left, queued...), err
		},
		sessions: func(prefix string) (int, error) {
			normal, err := named(prefix, "normal")
			if err != nil {
				return 0, err
			}
			subscribers, err := named(prefix, "pubsub")
			return len(normal) + len(subscribers), err
		},
	}
}

func redisKeepsCountersOnly(t *testing.T, admin *redis.Client, prefix string) {
	counters := 0
	keys := admin.Scan(context.Background(), 0, prefix+":*", 1000).Iterator()
	for keys.Next(context.Background()) {
		ttl := admin.PTTL(context.Background(), keys.Val()).Val()
		switch {
		case strings.HasSuffix(keys.Val(), ":counter"):
			counters++
		case ttl == -1:
			t.Errorf("%s has no expiry", keys.Val())
		}
	}
	assert.NoError(t, keys.Err())
	assert.LessOrEqual(t, counters, 256)
}

// postgresClient returns a pool behind a proxy, under the client's name.
func postgresClient(t *testing.T, shared *pgxpool.Pool, name string) (*pgxpool.Pool, *netfault.Proxy) {
	t.Helper()
	config := shared.Config()
	p := proxied(t, net.JoinHostPort(config.ConnConfig.Host, strconv.Itoa(int(config.ConnConfig.Port))))
	_, port, err := net.SplitHostPort(p.Addr())
	require.NoError(t, err)
	number, err := strconv.ParseUint(port, 10, 16)
	require.NoError(t, err)
	config.ConnConfig.Host, config.ConnConfig.Port, config.ConnConfig.Fallbacks = "127.0.0.1", uint16(number), nil
	config.ConnConfig.RuntimeParams["application_name"] = name
	config.MaxConns, config.MinConns = 10, 0
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	require.NoError(t, err)
	return pool, p
}

type closingIssuer interface {
	queueIssuer
	io.Closer
}

func postgresSystem(shared *pgxpool.Pool, of func(*pgxpool.Pool) closingIssuer) *system {
	count := func(sql string, args ...any) (n int, err error) {
		err = shared.QueryRow(context.Background(), sql, args...).Scan(&n)
		return n, err
	}
	return &system{
		connect: func(t *testing.T, name string) *client {
			pool, p := postgresClient(t, shared, name)
			iss := of(pool)
			return &client{iss, name, p, func() { assert.NoError(t, iss.Close()); pool.Close(); p.Close() }}
		},
		sessions: func(prefix string) (int, error) {
			return count("SELECT count(*) FROM pg_stat_activity WHERE starts_with(application_name, $1)", prefix)
		},
		dropNotifications: func(name string) error {
			_, err := count("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = $1"+
				" AND query LIKE 'LISTEN %'", name)
			return err
		},
	}
}

func onPostgres(t *testing.T) *system {
	shared, schema := testenv.Postgres(t)
	s := postgresSystem(shared, func(pool *pgxpool.Pool) closingIssuer { return &pgtoken.Issuer{DB: pool, Schema: schema} })
	s.queued = func(resource string) (n int, err error) {
		err = shared.QueryRow(context.Background(), fmt.Sprintf("SELECT count(*) FROM %q.waiters WHERE resource = $1", schema), resource).Scan(&n)
		return n, err
	}
	s.left = func(resource string) (left []string, err error) {
		err = shared.QueryRow(context.Background(), fmt.Sprintf("SELECT array(SELECT 'waiter '||holder FROM %[1]q.waiters WHERE resource = $1"+
			" UNION ALL SELECT 'holder '||holder FROM %[1]q.leases WHERE resource = $1 AND expires_at > clock_timestamp())", schema), resource).Scan(&left)
		return left, err
	}
	return s
}

func inMemory(*testing.T) *system {
	iss := &memtoken.Issuer{}
	none := func(string) (int, error) { return 0, nil }
	return &system{
		connect:           func(_ *testing.T, name string) *client { return &client{iss, name, nil, func() {}} },
		dropNotifications: func(string) error { return nil },
		queued:            func(string) (int, error) { return -1, nil },
		left:              func(string) ([]string, error) { return nil, nil },
		sessions:          none,
	}
}

// eventually polls for something that a server does asynchronously.
func eventually(done func() (bool, error)) error {
	for deadline := time.Now().Add(hang); ; time.Sleep(time.Millisecond) {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return context.DeadlineExceeded
		}
	}
}
