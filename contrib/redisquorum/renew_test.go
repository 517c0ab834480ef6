package redisquorum_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/contrib/redisquorum"
	"github.com/fencepost/fencepost/token"
)

// hazard L4
func TestARenewalNeedsAMajorityThatHolds(t *testing.T) {
	t.Parallel()
	all := servers(t, 3)
	iss, links := all.founded(t, time.Hour)
	links["c"].cut.Store(true)
	tok := acquire(t, iss, "a", time.Hour) // on a and b
	links["c"].cut.Store(false)

	links["a"].cut.Store(true)
	_, err := iss.Renew(t.Context(), tok, time.Hour)
	require.NotErrorIs(t, err, token.ErrLost, "a has not answered")
	require.ErrorIs(t, err, redisquorum.ErrNoMajority)
	require.ErrorContains(t, err, "renewed by 1 of 3 nodes")
	links["a"].cut.Store(false)
	has := func(node string) bool { return all[node].Client().Exists(t.Context(), lockKey).Val() == 1 }
	require.Eventually(t, func() bool { // one renewal may be over before c has replied to it
		_, err := iss.Renew(t.Context(), tok, time.Hour)
		return err == nil && has("c")
	}, testTimeout, pause, "c had no lock, and a majority has")

	page, err := os.ReadFile("../../docs/locks.md")
	require.NoError(t, err)
	require.Contains(t, string(page), "`redis-cli DEL "+lockKey+"`")
	// Not at c: a renewal above may still lock it.
	require.NoError(t, all["a"].Client().Del(t.Context(), lockKey).Err())
	require.NoError(t, all["b"].Client().Del(t.Context(), lockKey).Err())
	_, err = iss.Renew(t.Context(), tok, time.Hour)
	require.ErrorIs(t, err, token.ErrLost)
	time.Sleep(10 * time.Millisecond) // for background work that must not happen
	require.False(t, has("a") || has("b"), "free stays free")
}

// Without reacquire, one restart of each node would end every long lease. On a busy
// machine a lease may end by itself; the test then repeats with a longer one. A renewal
// may also get no majority within the ttl, and is repeated.
func TestALeaseOutlivesTheMemoryOfEveryNode(t *testing.T) {
	t.Parallel()
	var err error
	for ttl := soon; ttl < testTimeout; ttl *= 3 {
		if err = outlive(t, ttl); !errors.Is(err, token.ErrLost) && !errors.Is(err, redisquorum.ErrNoMajority) {
			break
		}
	}
	require.NoError(t, err)
}

func outlive(t *testing.T, ttl time.Duration) error {
	all := servers(t, 3)
	iss, _ := all.founded(t, ttl)
	tok := acquire(t, iss, "a", ttl)
	renewed := func() error {
		time.Sleep(pause)
		_, err := iss.Renew(t.Context(), tok, ttl)
		if errors.Is(err, redisquorum.ErrNoMajority) {
			return nil
		}
		return err
	}
	for _, node := range all {
		require.NoError(t, node.Client().FlushAll(t.Context()).Err())
		for !strings.HasSuffix(node.Client().Get(t.Context(), lockKey).Val(), " a") {
			if err := renewed(); err != nil {
				return err
			}
		}
	}
	if err := iss.Release(t.Context(), tok); err != nil {
		return err
	}
	require.Greater(t, cycle(t, iss, "b").Number, tok.Number)
	return nil
}

func TestABatchIsOneRequestToEachNode(t *testing.T) {
	t.Parallel()
	all := servers(t, 3)
	iss, _ := all.founded(t, time.Hour)
	batch := make([]token.Renewal, 200)
	for i := range batch {
		grant, err := iss.Acquire(t.Context(), fmt.Sprintf("batch/%d", i), "a", time.Hour)
		require.NoError(t, err)
		batch[i] = token.Renewal{Token: grant.Token, TTL: time.Hour}
	}
	batch[7].TTL = time.Hour + 1
	batch[8].TTL = time.Millisecond
	other, _ := all.issuer(t, time.Hour) // which has no request in flight
	requests := requestsOf(t, other, redisquorum.RenewScript)
	other.RenewAll(t.Context(), batch)
	require.Eventually(t, func() bool { return requests.Load() >= int32(len(all)) }, testTimeout, pause)
	require.EqualValues(t, len(all), requests.Load())
	for i, r := range batch {
		if i == 7 || i == 8 {
			require.ErrorContains(t, r.Err, "MaxTTL 1h")
			continue
		}
		require.NoError(t, r.Err)
		require.WithinRange(t, r.Until, time.Now().Add(55*time.Minute), time.Now().Add(time.Hour))
	}
}

func TestAnAcquireIsTwoRequestsToEachNodeAndTheRestIsOne(t *testing.T) {
	t.Parallel()
	all := servers(t, 5)
	iss, _ := all.founded(t, time.Hour)
	requests := requestsOf(t, iss,
		redisquorum.AcquireScript, redisquorum.WriteScript, redisquorum.RenewScript, redisquorum.ReleaseScript)
	var tok token.Token
	for _, verb := range []struct {
		requests int32
		do       func() error
	}{
		{10, func() error { tok = acquire(t, iss, "a", time.Hour); return nil }},
		{5, func() error { _, err := iss.Renew(t.Context(), tok, time.Hour); return err }},
		{5, func() error { return iss.Release(t.Context(), tok) }},
	} {
		require.NoError(t, verb.do())
		// One request may be later than the others.
		require.Eventually(t, func() bool { return requests.Load() >= verb.requests }, testTimeout, pause)
		require.Equal(t, verb.requests, requests.Swap(0))
	}
}

// requestsOf counts requests from now on, at servers that have the scripts.
func requestsOf(t *testing.T, iss *redisquorum.Issuer, scripts ...*redis.Script) *atomic.Int32 {
	t.Helper()
	count := counter{requests: new(atomic.Int32)}
	for _, script := range scripts {
		count.scripts = append(count.scripts, script.Hash())
	}
	for _, client := range iss.Nodes {
		for _, script := range scripts {
			require.NoError(t, script.Load(t.Context(), client).Err())
		}
		client.AddHook(count)
	}
	return count.requests
}

type counter struct {
	requests *atomic.Int32
	scripts  []string // their hashes
}

func (c counter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (c counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if len(cmd.Args()) > 1 && slices.Contains(c.scripts, fmt.Sprint(cmd.Args()[1])) {
			c.requests.Add(1)
		}
		return err
	}
}
