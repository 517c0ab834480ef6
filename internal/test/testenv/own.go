package testenv

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/internal/test/serverproc"
)

// own is a server for one test: it can be killed, as by a power cut, and started again with
// the same folder and port. It is removed at the end of the test. Its methods must be
// called from the test's goroutine.
type own struct {
	*serverproc.Process
	t testing.TB
}

// startOwn starts the program. If err is not nil, it is the reason why there is no program,
// and startOwn fails the test.
func startOwn(t testing.TB, p serverproc.Program, err error) own {
	t.Helper()
	p.Signal = "" // the server may be stopped by a signal
	o := own{t: t}
	if err == nil {
		o.Process, err = serverproc.Start(p)
	}
	if err != nil {
		t.Fatalf("testenv: this test starts a server of its own: %v\n"+
			"run `make setup`, which installs it if it can", err)
	}
	t.Cleanup(func() {
		if err := o.Remove(); err != nil {
			t.Errorf("testenv: %v", err)
		}
	})
	return o
}

func (o own) restart() {
	o.t.Helper()
	if err := o.Restart(); err != nil {
		o.t.Fatalf("testenv: restart: %v", err)
	}
}

func (o own) signal(name string) {
	o.t.Helper()
	if err := o.Send(name); err != nil {
		o.t.Fatalf("testenv: %v", err)
	}
}

// RedisAt returns a client of the shared server at another address, such as a proxy in
// front of it, with the options of the server's URL. It is closed at the end of the test.
func RedisAt(t testing.TB, addr string) *redis.Client {
	t.Helper()
	options := redisOptions(t, RedisURL(t))
	options.Addr = addr
	client := redis.NewClient(options)
	t.Cleanup(func() { client.Close() }) // an error means that the test closed it
	return client
}

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
		for _, earlier := range c.nodes[:i] { // gossip would take ten seconds
			node.must("CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(earlier.own.Port))
		}
	}
	for _, node := range c.nodes {
		node.eventually("the nodes do not connect", func() bool {
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
		node.eventually("the Cluster does not become ready", func() bool {
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

// owner returns the address of the master that has the key according to this node.
func (s *RedisServer) owner(key string) string {
	slot, _ := s.client.ClusterKeySlot(s.own.t.Context(), key).Result()
	for _, span := range s.slots() {
		if span.Start <= int(slot) && int(slot) <= span.End && len(span.Nodes) > 0 {
			return span.Nodes[0].Addr
		}
	}
	return ""
}

// slots returns the reply to CLUSTER SLOTS, or nil after an error.
func (s *RedisServer) slots() []redis.ClusterSlot {
	cmd := redis.NewClusterSlotsCmd(s.own.t.Context(), "CLUSTER", "SLOTS")
	_ = s.client.Process(s.own.t.Context(), cmd)
	return cmd.Val()
}

func (s *RedisServer) cluster(line string) bool {
	return strings.Contains(s.client.ClusterInfo(s.own.t.Context()).Val(), line+"\r\n")
}
