package partition_test

import (
	"io"
	"net"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/contrib/redisquorum"
	"github.com/fencepost/fencepost/internal/netfault"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
	"github.com/fencepost/fencepost/token/redistoken"
)

// site is an issuer: its servers, and how to use it at other addresses than theirs.
type site struct {
	servers []string
	at      func(t *testing.T, addrs []string) token.Issuer
	faults  []fault // faults between its holders and the servers
}

// near is the issuer without a proxy.
func (s site) near(t *testing.T) token.Issuer { t.Helper(); return s.at(t, s.servers) }

// far is the issuer behind a proxy for each server.
func (s site) far(t *testing.T) (token.Issuer, []*netfault.Proxy) {
	t.Helper()
	proxies := make([]*netfault.Proxy, len(s.servers))
	addrs := make([]string, len(s.servers))
	for i, server := range s.servers {
		p, err := netfault.Start(server)
		require.NoError(t, err)
		t.Cleanup(p.Close)
		proxies[i], addrs[i] = p, p.Addr()
	}
	return s.at(t, addrs), proxies
}

func onRedis(t *testing.T) site {
	t.Helper()
	shared, prefix := testenv.Redis(t)
	at := func(t *testing.T, addrs []string) token.Issuer {
		t.Helper()
		return closed(t, &redistoken.Issuer{Client: testenv.RedisAt(t, addrs[0]), Prefix: prefix})
	}
	return site{[]string{shared.Options().Addr}, at, faults}
}

func onPostgres(t *testing.T, issuer func(pool *pgxpool.Pool, schema string) token.Issuer) site {
	t.Helper()
	shared, schema := testenv.Postgres(t)
	config := shared.Config().ConnConfig
	server := net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port)))
	at := func(t *testing.T, addrs []string) token.Issuer {
		t.Helper()
		return closed(t, issuer(postgresAt(t, shared, addrs[0]), schema))
	}
	return site{[]string{server}, at, faults}
}

// closed returns iss, and closes it at the end of the test if it has a Close method.
func closed(t *testing.T, iss token.Issuer) token.Issuer {
	t.Helper()
	if c, ok := iss.(io.Closer); ok {
		t.Cleanup(func() { require.NoError(t, c.Close()) })
	}
	return iss
}

func postgresAt(t *testing.T, shared *pgxpool.Pool, addr string) *pgxpool.Pool {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	number, err := strconv.ParseUint(port, 10, 16)
	require.NoError(t, err)
	config := shared.Config()
	config.ConnConfig.Host, config.ConnConfig.Port, config.ConnConfig.Fallbacks = host, uint16(number), nil
	config.MaxConns = 2 * atOnce
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

var sites = map[string]func(*testing.T) site{
	"redistoken":  onRedis,
	"redisquorum": onQuorum,
	"pgtoken":     func(t *testing.T) site { t.Helper(); return onPostgres(t, rows) },
}

func rows(pool *pgxpool.Pool, schema string) token.Issuer {
	return &pgtoken.Issuer{DB: pool, Schema: schema}
}

func onQuorum(t *testing.T) site {
	t.Helper()
	s := site{faults: faults, at: func(t *testing.T, addrs []string) token.Issuer {
		t.Helper()
		iss := &redisquorum.Issuer{Nodes: map[string]redis.UniversalClient{}, MaxTTL: ttl}
		for i, addr := range addrs {
			iss.Nodes[string(rune('a'+i))] = testenv.RedisAt(t, addr)
		}
		return closed(t, iss)
	}}
	for range 3 {
		s.servers = append(s.servers, testenv.OwnRedis(t).Addr())
	}
	require.NoError(t, s.near(t).(*redisquorum.Issuer).Bootstrap(t.Context()))
	return s
}
