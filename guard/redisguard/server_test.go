package redisguard_test

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
)

// server is one that a test has for itself, with settings of its own: a replica,
// a node of a Cluster, one that may be killed.
type server struct {
	*testing.T
	*testenv.RedisServer
}

// serve starts a server without persistence, unless the settings say otherwise.
func serve(t *testing.T, settings ...string) *server {
	t.Helper()
	settings = append([]string{"--enable-protected-configs", "yes", "--enable-debug-command", "yes"}, settings...)
	return &server{t, testenv.OwnRedis(t, settings...)}
}

// client does not wait between two tries.
func (s *server) client(change ...func(*redis.Options)) *redis.Client {
	s.Helper()
	options := redis.Options{Addr: s.Addr(), MinRetryBackoff: -1}
	for _, change := range change {
		change(&options)
	}
	return connect(s.T, options)
}

// env is the server's, which is empty.
func (s *server) env() *env { s.Helper(); return envOn(s.T, s.client(), "own") }

func (e *env) set(setting, value string) {
	e.Helper()
	require.NoError(e, e.client.ConfigSet(e.Context(), setting, value).Err())
}
