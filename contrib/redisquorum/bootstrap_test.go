package redisquorum_test

import (
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/contrib/redisquorum"
	"github.com/fencepost/fencepost/token"
)

func TestWithoutBootstrapNothingIsGranted(t *testing.T) {
	t.Parallel()
	all := servers(t, 3)
	iss, _ := all.issuer(t, soon)
	_, err := iss.Acquire(t.Context(), resource, "a", soon)
	require.ErrorIs(t, err, redisquorum.ErrNoMajority)
	require.ErrorContains(t, err, "Bootstrap was not called")
	err = iss.Release(t.Context(), token.Token{Resource: resource, Number: 1, Holder: "a"})
	require.ErrorIs(t, err, redisquorum.ErrNoMajority)
	for _, node := range all {
		require.Zero(t, node.Client().DBSize(t.Context()).Val(), "nothing was written")
	}
	require.NoError(t, iss.Bootstrap(t.Context()))
	cycle(t, iss, "a")
}

func TestBootstrapIsForOnce(t *testing.T) {
	t.Parallel()
	all := servers(t, 3)
	first, _ := all.founded(t, time.Hour)
	held := acquire(t, first, "a", time.Hour)
	second, _ := all.issuer(t, time.Hour)
	require.ErrorContains(t, second.Bootstrap(t.Context()), "there is a quorum: 3 of 3")
	require.NoError(t, all["a"].Client().FlushAll(t.Context()).Err())
	require.ErrorContains(t, second.Bootstrap(t.Context()), "there is a quorum: 2 of 3")
	_, err := second.Renew(t.Context(), held, time.Hour)
	require.NoError(t, err, "nothing has changed")
}

func TestBootstrapNeedsAllNodes(t *testing.T) {
	t.Parallel()
	all := servers(t, 3)
	iss, links := all.issuer(t, soon)
	links["b"].cut.Store(true)
	require.ErrorIs(t, iss.Bootstrap(t.Context()), errCut)
	require.Zero(t, all["a"].Client().DBSize(t.Context()).Val(), "nothing was written")
	links["b"].cut.Store(false)
	require.NoError(t, iss.Bootstrap(t.Context()))
}

// hazard R14
func TestStressALostMajorityIsBroughtBackByHandAndNotAtOnce(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string][]string{"two of three": {"a", "b"}, "all": {"a", "b", "c"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// A busy machine may need longer than the ttl before it calls Bootstrap.
			for ttl := soon; !broughtBack(t, lost, ttl); ttl *= 3 {
				require.Less(t, ttl, testTimeout)
			}
		})
	}
}

// broughtBack returns false if a lease of ttl may have ended before the first Bootstrap.
func broughtBack(t *testing.T, lost []string, ttl time.Duration) bool {
	all := servers(t, 3)
	iss, links := all.founded(t, ttl)
	all.ahead(t)
	links["b"].cut.Store(true)
	first := acquire(t, iss, "first", ttl) // on a and c
	links["b"].cut.Store(false)
	granted := time.Now()
	for _, name := range lost {
		require.NoError(t, all[name].Client().FlushAll(t.Context()).Err())
	}
	_, err := iss.Renew(t.Context(), first, ttl)
	require.ErrorIs(t, err, redisquorum.ErrNoMajority)
	err = iss.Bootstrap(t.Context())
	if time.Since(granted) >= ttl {
		return false
	}
	require.ErrorContains(t, err, "leases may be alive for another")

	require.Eventually(t, func() bool { return iss.Bootstrap(t.Context()) == nil }, testTimeout, pause)
	require.GreaterOrEqual(t, time.Since(granted), ttl)
	second := acquire(t, iss, "second", ttl)
	if len(lost) < len(all) {
		require.Greater(t, second.Number, first.Number, "one of them had not forgotten")
	}
	other, _ := all.issuer(t, ttl)
	require.Eventually(t, func() bool { // on a busy machine, the lease may have ended
		if _, err = other.Renew(t.Context(), second, ttl); err == nil {
			return true
		}
		again, _ := iss.Acquire(t.Context(), resource, "second", ttl)
		second = again.Token
		return false
	}, testTimeout, pause, "another program finds the quorum")
	return true
}

func TestProgramsThatBootstrapAtOnceMakeOneQuorum(t *testing.T) {
	t.Parallel()
	all := servers(t, 3)
	var programs sync.WaitGroup
	for range 4 {
		iss, _ := all.issuer(t, 50*time.Millisecond)
		programs.Go(func() { _ = iss.Bootstrap(t.Context()) })
	}
	programs.Wait()
	iss, _ := all.issuer(t, 50*time.Millisecond)
	require.Eventually(t, func() bool {
		_ = iss.Bootstrap(t.Context())
		return iss.Rejoin(t.Context()) == nil
	}, testTimeout, pause)
	require.Eventually(t, func() bool { // within the ttl, which a busy machine may exceed
		grant, err := iss.Acquire(t.Context(), resource, "a", 50*time.Millisecond)
		return err == nil && iss.Release(t.Context(), grant.Token) == nil
	}, testTimeout, pause)
}

// Majorities of two quorums need not overlap, and so with two lists of nodes.
func TestAnotherListOfNodesIsRefused(t *testing.T) {
	t.Parallel()
	all, others := servers(t, 5), servers(t, 3)
	three := nodes{"a": all["a"], "b": all["b"], "c": all["c"]}
	three.founded(t, soon)
	others.founded(t, soon)
	for text, list := range map[string]struct {
		nodes
		maxTTL time.Duration
	}{
		"it is in a quorum of a,b,c, not of a,b,c,d,e": {all, soon},
		"it is in a quorum of a,b,c, not of a,b,d":     {nodes{"a": all["a"], "b": all["b"], "d": all["d"]}, soon},
		`its name is "b" in the quorum, and "a" here`:  {nodes{"a": all["b"], "b": all["a"], "c": all["c"]}, soon},
		"its quorum has a MaxTTL of 1s, not of 1m0s":   {three, time.Minute},
	} {
		iss, _ := list.issuer(t, list.maxTTL)
		_, err := iss.Acquire(t.Context(), resource, "a", soon)
		require.ErrorContains(t, err, text)
		require.Error(t, iss.Bootstrap(t.Context()))
	}

	mixed, _ := nodes{"a": all["a"], "b": all["b"], "c": others["c"]}.issuer(t, soon)
	cycle(t, mixed, "a")
	require.ErrorContains(t, mixed.Rejoin(t.Context()), "node c: it is in the quorum")
	require.EqualValues(t, 1, others["c"].Client().DBSize(t.Context()).Val(), "the only key is the marker: it did not vote")
}

// The steps of docs/locks.md.
func TestAnotherListOfNodesAfterTheMarkersAreDeleted(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/locks.md")
	require.NoError(t, err)
	command := regexp.MustCompile("`redis-cli\\s(DEL .*:member)`").FindStringSubmatch(string(page))
	require.NotNil(t, command)
	all := servers(t, 5)
	three := nodes{"a": all["a"], "b": all["b"], "c": all["c"]}
	first, _ := three.founded(t, soon)
	three.ahead(t)
	before := cycle(t, first, "before")
	for _, server := range three {
		words := strings.Fields(command[1])
		require.NoError(t, server.Client().Do(t.Context(), words[0], words[1]).Err())
	}
	longer, _ := all.issuer(t, time.Hour)
	require.ErrorContains(t, longer.Bootstrap(t.Context()), "leases may be alive for another")
	five, _ := all.issuer(t, soon)
	require.Eventually(t, func() bool { return five.Bootstrap(t.Context()) == nil }, testTimeout, pause)
	require.Greater(t, cycle(t, five, "after").Number, before.Number)
}

func TestWhatIsNoQuorumIsRefused(t *testing.T) {
	t.Parallel()
	client := func() *redis.Client {
		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
		t.Cleanup(func() { client.Close() })
		return client
	}
	ring, cluster := redis.NewRing(&redis.RingOptions{}), redis.NewClusterClient(&redis.ClusterOptions{})
	defer ring.Close()
	defer cluster.Close()
	a, b, c := client(), client(), client()
	type list = map[string]redis.UniversalClient
	for text, iss := range map[string]*redisquorum.Issuer{
		"0 nodes":                   {},
		"2 nodes":                   {Nodes: list{"a": a, "b": b}},
		`"c" has no client`:         {Nodes: list{"a": a, "b": b, "c": nil}},
		`"c" is a Ring`:             {Nodes: list{"a": a, "b": b, "c": ring}},
		`"c" is a Cluster`:          {Nodes: list{"a": a, "b": b, "c": cluster}},
		`"c" has the client of "a"`: {Nodes: list{"a": a, "b": b, "c": a}},
		`"" has a name`:             {Nodes: list{"a": a, "b": b, "": c}},
		`"c d" has a name`:          {Nodes: list{"a": a, "b": b, "c d": c}},
		`"c,d" has a name`:          {Nodes: list{"a": a, "b": b, "c,d": c}},
		"MaxTTL 9ms":                {Nodes: list{"a": a, "b": b, "c": c}, MaxTTL: 9 * time.Millisecond},
		"MaxTTL -1s":                {Nodes: list{"a": a, "b": b, "c": c}, MaxTTL: -time.Second},
	} {
		_, err := iss.Acquire(t.Context(), resource, "a", soon)
		require.ErrorContains(t, err, text)
		require.ErrorContains(t, iss.Bootstrap(t.Context()), text)
	}
}

func TestTwoNamesOfOneServerAreRefused(t *testing.T) {
	t.Parallel()
	all := servers(t, 2)
	iss, _ := nodes{"a": all["a"], "b": all["b"], "c": all["a"]}.issuer(t, soon)
	require.ErrorContains(t, iss.Bootstrap(t.Context()), "nodes a and c are one server")
	_, err := iss.Acquire(t.Context(), resource, "x", soon)
	require.ErrorIs(t, err, redisquorum.ErrNoMajority)
}
