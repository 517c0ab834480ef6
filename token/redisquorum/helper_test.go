package redisquorum_test

import (
	"context"
	"errors"
	"hash/crc32"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redisquorum"
)

const (
	resource = "account/42"
	// soon is a MaxTTL that is meant to pass.
	soon = time.Second
	// Far above what is waited for, which only a hang reaches.
	patience = 30 * time.Second
	pause    = 5 * time.Millisecond
)

// nodes are Redis processes of one test alone, by their names.
type nodes map[string]*testenv.RedisServer

func servers(t *testing.T, n int, settings ...string) nodes {
	t.Helper()
	all := nodes{}
	for i := range n {
		all[string(rune('a'+i))] = testenv.OwnRedis(t, settings...)
	}
	return all
}

// issuer is one of a program of its own, with a line to each node.
func (all nodes) issuer(t *testing.T, maxTTL time.Duration) (*redisquorum.Issuer, map[string]*line) {
	t.Helper()
	iss, lines := &redisquorum.Issuer{Nodes: map[string]redis.UniversalClient{}, MaxTTL: maxTTL}, map[string]*line{}
	for name, server := range all {
		// The pool is for all that may be under way: go-redis 9.0 lets those who
		// wait for a connection go on waiting when the client is closed.
		client := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1, PoolSize: 500})
		t.Cleanup(func() { client.Close() })
		lines[name] = &line{}
		client.AddHook(lines[name])
		iss.Nodes[name] = client
	}
	return iss, lines
}

// founded is the issuer of a new quorum.
func (all nodes) founded(t *testing.T, maxTTL time.Duration) (*redisquorum.Issuer, map[string]*line) {
	t.Helper()
	iss, lines := all.issuer(t, maxTTL)
	require.NoError(t, iss.Bootstrap(t.Context()))
	return iss, lines
}

// ahead sets the counters ahead of all clocks, so that these cannot help.
func (all nodes) ahead(t *testing.T) (number int64) {
	t.Helper()
	number = time.Now().UnixMicro()/10 + 360_000_000
	for _, server := range all {
		require.NoError(t, server.Client().Set(t.Context(), counterKey(resource), number, 0).Err())
	}
	return number
}

const lockKey = "fencepost:quorum:lock:" + resource

func counterKey(resource string) string {
	return "fencepost:quorum:counter:" + strconv.Itoa(int(crc32.ChecksumIEEE([]byte(resource))%256))
}

// line is what connects a program with a node.
type line struct {
	cut   atomic.Bool
	delay atomic.Pointer[func()] // before a request is sent, and after its answer has come
}

var errCut = errors.New("the line is cut")

func (l *line) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l *line) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (l *line) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if l.cut.Load() {
			cmd.SetErr(errCut)
			return errCut
		}
		if delay := l.delay.Load(); delay != nil {
			(*delay)()
			defer (*delay)()
		}
		return next(ctx, cmd)
	}
}

func acquire(t *testing.T, iss token.Issuer, holder string, ttl time.Duration) token.Token {
	t.Helper()
	grant, err := iss.Acquire(t.Context(), resource, holder, ttl)
	require.NoError(t, err)
	require.NoError(t, grant.Token.Check())
	return grant.Token
}

// cycle acquires and releases. On a busy machine the ttl may be over by then.
func cycle(t *testing.T, iss token.Issuer, holder string) token.Token {
	t.Helper()
	tok := acquire(t, iss, holder, soon)
	if err := iss.Release(t.Context(), tok); !errors.Is(err, token.ErrLost) {
		require.NoError(t, err)
	}
	return tok
}

// recovered waits until all nodes are members.
func recovered(t *testing.T, iss *redisquorum.Issuer) {
	t.Helper()
	var err error
	for start := time.Now(); time.Since(start) < patience; time.Sleep(pause) {
		if err = iss.Recover(t.Context()); err == nil {
			return
		}
	}
	t.Fatalf("not recovered after %s: %v", patience, err)
}
