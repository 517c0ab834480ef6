package partition_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
	"github.com/fencepost/fencepost/token/redisquorum"
)

var sites = map[string]func(*testing.T) site{
	"redistoken":       onRedis,
	"redisquorum":      onQuorum,
	"pgtoken":          func(t *testing.T) site { t.Helper(); return onPostgres(t, rows) },
	"pgtoken.Advisory": onAdvisoryLocks,
}

func rows(pool *pgxpool.Pool, schema string) token.Issuer {
	return &pgtoken.Issuer{DB: pool, Schema: schema}
}

func advisory(pool *pgxpool.Pool, schema string) token.Issuer {
	return &pgtoken.Advisory{Pool: pool, Schema: schema}
}

// onAdvisoryLocks leaves resets out: those end the session, and the lock with
// it, before the holder can know. See Advisory.
func onAdvisoryLocks(t *testing.T) site {
	t.Helper()
	s := onPostgres(t, advisory)
	s.faults = mute
	return s
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
