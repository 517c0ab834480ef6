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

	"github.com/fencepost/fencepost/contrib/redisquorum"
	"github.com/fencepost/fencepost/internal/test/leaktest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const (
	resource = "account/42"
	// soon is a MaxTTL that is meant to end during the test.
	soon = time.Second
	// testTimeout is far above every expected wait: only a call that hangs reaches it.
	testTimeout = 2 * time.Minute
	pause       = 5 * time.Millisecond
)

// nodes are Redis processes of one test, by their names.
type nodes map[string]*testenv.RedisServer

func servers(t *testing.T, n int, settings ...string) nodes {
	t.Helper()
	all := nodes{}
	for i := range n {
		all[string(rune('a'+i))] = testenv.OwnRedis(t, settings...)
	}
	return all
}

// issuer returns the issuer of a new program, with a link to each node. Unlike a
// program's issuer, it waits for a node that a busy machine delays.
func (all nodes) issuer(t *testing.T, maxTTL time.Duration) (*redisquorum.Issuer, map[string]*link) {
	t.Helper()
	iss, links := all.hasty(t, maxTTL)
	iss.Patient(testTimeout)
	return iss, links
}

// hasty is issuer with the timeouts that programs use, for nodes that hang.
func (all nodes) hasty(t *testing.T, maxTTL time.Duration) (*redisquorum.Issuer, map[string]*link) {
	t.Helper()
	iss, links := &redisquorum.Issuer{Nodes: map[string]redis.UniversalClient{}, MaxTTL: maxTTL}, map[string]*link{}
	for name, server := range all {
		// The pool has room for all requests in flight: in go-redis 9.0, requests that
		// wait for a connection continue to wait when the client is closed. The client
		// reads for an hour, so that a call that waits for a node that hangs is detected.
		client := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1, PoolSize: 500, ReadTimeout: time.Hour})
		t.Cleanup(func() { client.Close() })
		links[name] = &link{}
		client.AddHook(links[name])
		iss.Nodes[name] = client
	}
	return iss, links
}

// founded returns the issuer of a new quorum.
func (all nodes) founded(t *testing.T, maxTTL time.Duration) (*redisquorum.Issuer, map[string]*link) {
	t.Helper()
	iss, links := all.issuer(t, maxTTL)
	require.NoError(t, iss.Bootstrap(t.Context()))
	return iss, links
}

// ahead sets the counters ahead of all clocks, so that the clocks have no effect.
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

// link connects a program with a node.
type link struct {
	cut   atomic.Bool
	delay atomic.Pointer[func()] // runs before a request is sent, and after its reply has arrived
}

var errCut = errors.New("the link is cut")

func (l *link) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l *link) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (l *link) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
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

// acquire acquires, at all nodes that reply. On a busy machine, a short ttl may end
// before a majority has replied. acquire then retries until the previous attempt has been
// withdrawn and it succeeds.
func acquire(t *testing.T, iss *redisquorum.Issuer, holder string, ttl time.Duration) token.Token {
	t.Helper()
	var grant token.Grant
	var err error
	for start := time.Now(); time.Since(start) < testTimeout; time.Sleep(pause) {
		if grant, err = iss.Acquire(t.Context(), resource, holder, ttl); !errors.Is(err, redisquorum.ErrNoMajority) && !errors.Is(err, token.ErrHeld) {
			break
		}
	}
	require.NoError(t, err)
	require.NoError(t, grant.Token.Validate())
	arrived(t, iss)
	return grant.Token
}

// cycle acquires for the longest ttl and releases, at all nodes that reply. On a busy
// machine, a short ttl may have ended by then.
func cycle(t *testing.T, iss *redisquorum.Issuer, holder string) token.Token {
	t.Helper()
	tok := acquire(t, iss, holder, iss.MaxTTL)
	if err := iss.Release(t.Context(), tok); iss.MaxTTL > soon || !errors.Is(err, token.ErrLost) {
		require.NoError(t, err)
	}
	arrived(t, iss)
	return tok
}

// arrived waits until the nodes have replied to all requests. Before that, a node on
// which the majority did not depend may have no lock yet, or one that was released.
func arrived(t *testing.T, iss *redisquorum.Issuer) {
	t.Helper()
	for start := time.Now(); iss.Abandoned() > 0; time.Sleep(pause) {
		require.Less(t, time.Since(start), testTimeout)
	}
}

// recovered waits until all nodes are members.
func recovered(t *testing.T, iss *redisquorum.Issuer) {
	t.Helper()
	var err error
	for start := time.Now(); time.Since(start) < testTimeout; time.Sleep(pause) {
		if err = iss.Rejoin(t.Context()); err == nil {
			return
		}
	}
	t.Fatalf("not recovered after %s: %v", testTimeout, err)
}
