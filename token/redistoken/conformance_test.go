package redistoken_test

import (
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
	"github.com/fencepost/fencepost/token/tokentest"
)

func TestIssuerOnRedis(t *testing.T) {
	t.Parallel()
	tokentest.TestIssuer(t, func(t *testing.T) token.Issuer {
		client, prefix := testenv.Redis(t)
		return closing(t, &redistoken.Issuer{Client: client, Prefix: prefix})
	})
}

func TestIssuerOnMiniredis(t *testing.T) {
	t.Parallel()
	tokentest.TestIssuer(t, func(t *testing.T) token.Issuer {
		return closing(t, &redistoken.Issuer{Client: embedded(t)})
	})
}

func TestIssuerOnACluster(t *testing.T) {
	t.Parallel()
	cluster := testenv.RedisCluster(t, 3, 0)
	tokentest.TestIssuer(t, func(t *testing.T) token.Issuer {
		return closing(t, &redistoken.Issuer{Client: cluster.Client()})
	})
}

// embedded is a client of a Redis inside this process, reached by TCP.
func embedded(t *testing.T) *redis.Client {
	t.Helper()
	server := miniredis.RunT(t)
	server.ClockTTL(true)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { client.Close() })
	return client
}
