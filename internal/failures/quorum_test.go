package failures_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redisquorum"
)

func TestAQuorumLosesAMinority(t *testing.T) {
	for name, lose := range map[string]func(q nodes, recovered func()){
		"for good": func(q nodes, _ func()) { q["a"].Kill() },
		// Only what a has learnt again, and c, can know what the numbers were.
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

// nodes are the servers of a quorum, which keep nothing on disk.
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
	require.Eventually(t, func() bool { return iss.Recover(t.Context()) == nil }, patience, 10*time.Millisecond)
}
