package redisguard_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/redisguard"
	"github.com/fencepost/fencepost/token"
)

// cluster has two nodes, the first of which has all slots.
type cluster struct {
	*testing.T
	nodes []*redis.Client
	ids   []string
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{T: t}
	for range 2 {
		s := serve(t, "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf")
		node := s.client()
		c.nodes, c.ids = append(c.nodes, node), append(c.ids, node.Do(t.Context(), "CLUSTER", "MYID").Val().(string))
	}
	require.NoError(t, c.nodes[0].ClusterAddSlotsRange(t.Context(), 0, 16383).Err())
	other := c.nodes[1].Options().Addr
	host, port, _ := strings.Cut(other, ":")
	require.NoError(t, c.nodes[0].ClusterMeet(t.Context(), host, port).Err())
	for _, node := range c.nodes {
		eventually(t, func() bool {
			info := node.ClusterInfo(t.Context()).Val()
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:2")
		}, "the nodes have met")
	}
	return c
}

// client is configured with the first node, and never refreshes its slots.
func (c *cluster) client() *redis.ClusterClient {
	addr := c.nodes[0].Options().Addr
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{addr}, MinRetryBackoff: -1,
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: addr}}}}, nil
		},
	})
	c.Cleanup(func() { client.Close() })
	return client
}

func (c *cluster) do(node int, args ...any) {
	c.Helper()
	require.NoError(c, c.nodes[node].Do(c.Context(), args...).Err())
}

func (c *cluster) slot(key string) int64 { return c.nodes[0].ClusterKeySlot(c.Context(), key).Val() }

// migrate starts moving the slot of key to the second node.
func (c *cluster) migrate(key string) {
	c.Helper()
	slot := c.slot(key)
	c.do(1, "CLUSTER", "SETSLOT", slot, "IMPORTING", c.ids[0])
	c.do(0, "CLUSTER", "SETSLOT", slot, "MIGRATING", c.ids[1])
}

// move moves keys to the second node.
func (c *cluster) move(keys ...string) {
	c.Helper()
	host, port, _ := strings.Cut(c.nodes[1].Options().Addr, ":")
	for _, key := range keys {
		c.do(0, "MIGRATE", host, port, key, 0, ceiling.Milliseconds())
	}
}

// settle ends the move.
func (c *cluster) settle(key string) {
	c.Helper()
	for node := range c.nodes {
		c.do(1-node, "CLUSTER", "SETSLOT", c.slot(key), "NODE", c.ids[1])
	}
}

// hazard R8
func TestTheMarkSharesTheSlotOfTheKeysWithItsTag(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	g := &redisguard.Guard{Client: c.client()}
	ctx := with(t.Context(), 33, "a")
	for _, name := range []string{"account/42", "{", "a{b", "a}b", "a{b}c", "{a}", "konto/größe", " ", "user:{7}:x"} {
		tag := "balance:{" + name + "}"
		require.Equal(t, c.slot(tag), c.slot(redisguard.MarkKey(name)), name)
		tok := tok(33, "a")
		tok.Resource = name
		require.NoError(t, g.Set(token.NewContext(ctx, tok), name, tag, "x", 0), name)
	}
	require.NotEqual(t, c.slot("balance:{}a}"), c.slot(redisguard.MarkKey("}a")), "no tag: it needs a MarkKey")

	for verb, do := range doors(g, "elsewhere", "x") {
		err := do(ctx)
		require.ErrorContains(t, err, "CROSSSLOT", verb)
		require.Empty(t, outcomes(err), verb)
	}
	const key = "{" + resource + "}:"
	for name, elsewhere := range map[string]func(redis.Pipeliner){
		"the first key":              func(p redis.Pipeliner) { p.Set(ctx, "elsewhere", 1, 0) },
		"the first, in second place": func(p redis.Pipeliner) { p.BitOpOr(ctx, "elsewhere", key+"a") },
	} {
		_, err := g.TxPipelined(ctx, resource, func(p redis.Pipeliner) error {
			p.Set(ctx, key+"a", 1, 0)
			elsewhere(p)
			return nil
		})
		require.ErrorContains(t, err, "CROSSSLOT", name)
		require.Empty(t, outcomes(err), name)
		require.Zero(t, c.client().Exists(ctx, key+"a").Val(), name)
	}
	cmds, err := g.TxPipelined(ctx, resource, func(p redis.Pipeliner) error {
		p.BitOpOr(ctx, key+"b", key+"a")
		p.XGroupCreateMkStream(ctx, key+"c", "group", "$")
		p.Publish(ctx, "elsewhere", "news")
		p.Do(ctx, "SET", []byte(key+"e"), 1)
		p.MemoryUsage(ctx, key+"c")
		p.ZDiff(ctx, key+"f", key+"g")
		p.ZInterCard(ctx, 0, key+"f", key+"g")
		p.XAdd(ctx, &redis.XAddArgs{Stream: key + "c", Values: []string{"a", "b"}})
		p.Do(ctx, "XREAD", "STREAMS", key+"c", "0")
		p.Keys(ctx, key+"*")
		p.MSet(ctx, key+"d", 1, "elsewhere", 2)
		return nil
	})
	require.Equal(t, []error{guard.ErrUnknown}, outcomes(err), "a second key elsewhere fails on the server")
	for i, cmd := range cmds[:len(cmds)-1] {
		require.NoError(t, cmd.Err(), i)
	}
	require.Zero(t, c.client().Exists(ctx, key+"d").Val())

	naive := func(resource string) string { return "mark:" + resource }
	require.NotEqual(t, c.slot(naive(resource)), c.slot("balance:{"+resource+"}"), "a mark without a tag must part from its resource")

	own := &redisguard.Guard{Client: c.client(), MarkKey: func(string) string { return "mark:{elsewhere}" }}
	for verb, do := range doors(own, "{elsewhere}", "x") {
		require.NoError(t, do(ctx), verb)
	}
}

// After a redirect the script has not run, and the next node gets it for the first time.
func TestARedirectIsFollowed(t *testing.T) {
	t.Parallel()
	for _, redirect := range []string{"MOVED", "ASK"} {
		t.Run(redirect, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			g := &redisguard.Guard{Client: c.client()}
			key := "ledger:{" + resource + "}"
			write := func(number int64) error {
				_, err := g.Eval(with(t.Context(), number, "a"), resource, ledger, []string{key}, number)
				return err
			}
			require.NoError(t, write(33))
			c.migrate(key)
			c.move(key, redisguard.MarkKey(resource))
			if redirect == "MOVED" {
				c.settle(key)
			}
			require.ErrorContains(t, c.nodes[0].Get(t.Context(), key).Err(), redirect, "the client must be sent on")

			require.NoError(t, write(34))
			require.NoError(t, write(35))
			require.ErrorIs(t, write(34), guard.ErrStale)
			require.NoError(t, g.Admit(t.Context(), tok(36, "c")))
			require.ErrorIs(t, write(35), guard.ErrStale)
			_, err := g.Mint(t.Context(), resource, "d")
			require.NoError(t, err)
			if redirect == "ASK" {
				c.settle(key)
			}
			require.Equal(t, []string{"33", "34", "35"}, c.nodes[1].LRange(t.Context(), key, 0, -1).Val(), "once each")
		})
	}
}

// One of a script's keys has been moved, and the other has not.
func TestAResourceThatIsBeingMovedIsRetryable(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	g := &redisguard.Guard{Client: c.client()}
	key := "ledger:{" + resource + "}"
	write := func(number int64) error {
		_, err := g.Eval(with(t.Context(), number, "a"), resource, ledger, []string{key}, number)
		return err
	}
	require.NoError(t, write(33))
	c.migrate(key)
	c.move(key)
	err := write(34)
	require.Equal(t, []error{guard.ErrRetryable}, outcomes(err), "%v", err)
	require.ErrorContains(t, err, "TRYAGAIN")
	c.move(redisguard.MarkKey(resource))
	require.NoError(t, write(34))
	c.settle(key)
	require.Equal(t, []string{"33", "34"}, c.nodes[1].LRange(t.Context(), key, 0, -1).Val())
	require.ErrorIs(t, write(33), guard.ErrStale, "the mark has moved with it")
}

func TestStressAClusterWithoutANodeForTheSlotIsAnOrdinaryFailure(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	g := &redisguard.Guard{Client: c.client()}
	require.NoError(t, g.Admit(t.Context(), tok(33, "a")))
	c.do(0, "CLUSTER", "DELSLOTS", strconv.FormatInt(c.slot(redisguard.MarkKey(resource)), 10))
	for verb, do := range doors(g, "{"+resource+"}", "x") {
		err := do(with(t.Context(), 33, "a"))
		require.ErrorContains(t, err, "CLUSTERDOWN", verb)
		require.Empty(t, outcomes(err), verb)
	}
}
