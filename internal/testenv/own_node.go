package testenv

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// meet makes a Cluster of the nodes.
func (c *ClusterOfRedis) meet(masters int) {
	t := c.nodes[0].own.t
	t.Helper()
	for i, node := range c.nodes {
		node.must("CLUSTER", "SET-CONFIG-EPOCH", i+1)
		if i < masters {
			from, to := i*16384/masters, (i+1)*16384/masters-1
			if err := node.client.ClusterAddSlotsRange(t.Context(), from, to).Err(); err != nil {
				t.Fatalf("testenv: slots for %s: %v", node.Addr(), err)
			}
		}
		for _, earlier := range c.nodes[:i] { // hearsay would take ten seconds
			node.must("CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(earlier.own.port))
		}
	}
	for _, node := range c.nodes {
		node.eventually("the nodes do not meet", func() bool {
			return node.cluster(fmt.Sprintf("cluster_known_nodes:%d", len(c.nodes)))
		})
	}
	for i, node := range c.nodes[masters:] {
		node.must("CLUSTER", "REPLICATE", c.nodes[i%masters].must("CLUSTER", "MYID"))
	}
	c.settle(masters)
}

// settle waits until all nodes agree, and the replicas have their masters' data.
func (c *ClusterOfRedis) settle(masters int) {
	for i, node := range c.nodes {
		node.eventually("the Cluster does not come about", func() bool {
			known := node.slots()
			ready := len(known) == masters && node.cluster("cluster_state:ok")
			for _, span := range known {
				ready = ready && len(span.Nodes) == len(c.nodes)/masters
			}
			return ready && (i < masters || node.info("master_link_status:up"))
		})
	}
}

func (s *RedisServer) isMaster() bool { return s.info("role:master") }

func (s *RedisServer) has(key string) bool { return s.owner(key) == s.Addr() }

// owner is the address of the master that this node believes to have the key.
func (s *RedisServer) owner(key string) string {
	slot, _ := s.client.ClusterKeySlot(s.own.t.Context(), key).Result()
	for _, span := range s.slots() {
		if span.Start <= int(slot) && int(slot) <= span.End && len(span.Nodes) > 0 {
			return span.Nodes[0].Addr
		}
	}
	return ""
}

// slots is what clients are told; none where they are told nothing.
func (s *RedisServer) slots() []redis.ClusterSlot {
	cmd := redis.NewClusterSlotsCmd(s.own.t.Context(), "CLUSTER", "SLOTS")
	_ = s.client.Process(s.own.t.Context(), cmd)
	return cmd.Val()
}

func (s *RedisServer) cluster(line string) bool {
	return strings.Contains(s.client.ClusterInfo(s.own.t.Context()).Val(), line+"\r\n")
}
