package testenv

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/internal/test/serverproc"
)

// RedisServer is a Redis server for one test. Its methods must be called from the test's
// goroutine, and fail the test if they fail.
type RedisServer struct {
	own    own
	client *redis.Client
}

// manyErrors is a size that no pool reaches: after that many failed connects go-redis
// starts a goroutine that outlives the client by a second.
const manyErrors = 100_000

// OwnRedis starts this machine's Redis with settings in the form of its command line
// ("--appendonly", "yes"), on a port and in a folder of its own. Without settings it
// stores nothing on disk. It is removed at the end of the test.
func OwnRedis(t testing.TB, settings ...string) *RedisServer {
	t.Helper()
	return ownRedis(t, func(string) []string { return nil }, settings)
}

// OwnRedisWithFile is OwnRedis with a configuration file, which CONFIG REWRITE writes. A
// setting of the command line overrides the one in the file.
func OwnRedisWithFile(t testing.TB, settings ...string) *RedisServer {
	t.Helper()
	return ownRedis(t, func(folder string) []string {
		path := filepath.Join(folder, "redis.conf")
		file, err := os.OpenFile(path, os.O_CREATE, 0o644) // a restart reads the file
		if err != nil {
			t.Fatalf("testenv: %v", err)
		}
		_ = file.Close()
		return []string{path}
	}, settings)
}

func ownRedis(t testing.TB, file func(folder string) []string, settings []string) *RedisServer {
	t.Helper()
	p, err := redisProgram()
	base := p.Argv
	p.Argv = func(folder string, port int) []string {
		argv := append(append(base(folder, port), "--repl-diskless-sync-delay", "0"), settings...)
		return slices.Insert(argv, 1, file(folder)...)
	}
	s := &RedisServer{own: startOwn(t, p, err)}
	s.client = redis.NewClient(&redis.Options{Addr: s.Addr(), PoolSize: manyErrors})
	t.Cleanup(func() { s.client.Close() }) // an error means that the test closed it
	s.answers()
	return s
}

// Addr returns the server's address, "127.0.0.1:port". It is the same after a restart.
func (s *RedisServer) Addr() string {
	return serverproc.Loopback(s.own.Port)
}

// Client returns a client with go-redis's default settings. It is closed at the end of
// the test, and usable after a restart.
func (s *RedisServer) Client() *redis.Client { return s.client }

// Kill ends the server, as `kill -9` or a power cut does, and waits for its end. A second
// call does nothing.
func (s *RedisServer) Kill() { s.own.Kill() }

// Restart starts the server again with the same port, folder and settings, and returns
// when it answers. It kills a running server first.
func (s *RedisServer) Restart() {
	s.own.t.Helper()
	s.own.restart()
	s.answers()
}

// Pause stops the server and leaves its connections open: it does not answer until
// Resume.
func (s *RedisServer) Pause() { s.own.t.Helper(); s.own.signal("STOP") }

// Resume continues a paused server.
func (s *RedisServer) Resume() { s.own.t.Helper(); s.own.signal("CONT") }

func (s *RedisServer) answers() {
	s.own.t.Helper()
	s.eventually("the server does not answer", func() bool { return s.client.Ping(s.own.t.Context()).Err() == nil })
}

// eventually returns when done returns true. If it does not in time, the test fails with
// the text otherwise.
func (s *RedisServer) eventually(otherwise string, done func() bool) {
	s.own.t.Helper()
	for deadline := time.Now().Add(serverproc.Timeout); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) || s.own.t.Context().Err() != nil {
			s.own.t.Fatalf("testenv: Redis at %s: %s", s.Addr(), otherwise)
		}
	}
}

func (s *RedisServer) must(args ...any) any {
	s.own.t.Helper()
	reply, err := s.client.Do(s.own.t.Context(), args...).Result()
	if err != nil {
		s.own.t.Fatalf("testenv: %v of Redis at %s: %v", args[:2], s.Addr(), err)
	}
	return reply
}

// ClusterOfRedis is a Redis Cluster for one test. Its methods must be called from the
// test's goroutine, and fail the test if they fail.
type ClusterOfRedis struct {
	nodes  []*RedisServer // first the nodes that started as masters
	client *redis.ClusterClient
}

// RedisCluster starts a Cluster of that many masters, with that many replicas each. The
// failure of a master is detected after a second, and a replica takes over a second
// later; this needs at least three masters. All nodes get the additional settings.
func RedisCluster(t testing.TB, masters, replicas int, settings ...string) *ClusterOfRedis {
	t.Helper()
	c := &ClusterOfRedis{}
	settings = append([]string{
		"--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-node-timeout", "1000",
		"--cluster-replica-validity-factor", "0", // the replica's data may have any age
		// Clients do not see a replica until its master has sent it something.
		"--repl-ping-replica-period", "1",
	}, settings...)
	for range masters * (1 + replicas) {
		c.nodes = append(c.nodes, OwnRedis(t, settings...))
	}
	c.meet(masters)
	c.client = redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs(), PoolSize: manyErrors})
	t.Cleanup(func() { c.client.Close() }) // an error means that the test closed it
	return c
}

// Client returns a client with go-redis's default settings, which is closed at the end of
// the test. It detects a failover when it reloads the slots: after ten seconds, with
// newer versions of go-redis after a minute, or on a call of ReloadState.
func (c *ClusterOfRedis) Client() *redis.ClusterClient { return c.client }

// Addrs returns the addresses of all servers, in the order of Nodes.
func (c *ClusterOfRedis) Addrs() []string {
	addrs := make([]string, len(c.nodes))
	for i, node := range c.nodes {
		addrs[i] = node.Addr()
	}
	return addrs
}

// Nodes returns all servers: first those that started as masters, then their replicas, in
// turn.
func (c *ClusterOfRedis) Nodes() []*RedisServer { return slices.Clone(c.nodes) }

// Master returns the server that has the key according to most other nodes.
func (c *ClusterOfRedis) Master(key string) *RedisServer {
	t := c.nodes[0].own.t
	t.Helper()
	for _, node := range c.nodes {
		if node.own.Running() && node.isMaster() && node.has(key) {
			return node
		}
	}
	t.Fatalf("testenv: no node of the Cluster has %s", key)
	return nil
}

// Failover kills the master of key, waits until a replica has taken over, and returns the
// dead server. After a Restart it is a replica.
func (c *ClusterOfRedis) Failover(key string) *RedisServer {
	dead := c.Master(key)
	dead.own.t.Helper()
	dead.Kill()
	for _, node := range c.nodes {
		if node == dead || !node.own.Running() {
			continue
		}
		node.eventually("no replica takes its master's place", func() bool {
			owner := node.owner(key)
			return owner != "" && owner != dead.Addr() && node.cluster("cluster_state:ok")
		})
	}
	return dead
}

// Sentinel starts a Sentinel for this test, which watches master under the name "main". It
// returns the Sentinel's address. A failure of the master is detected after half a second.
func Sentinel(t testing.TB, master *RedisServer) string {
	t.Helper()
	path, version, err := redisBinary()
	argv := func(_ string, port int) []string {
		return []string{"sh", "-c", `printf 'port %s\nbind 127.0.0.1\nsentinel monitor main 127.0.0.1 %s 1\n` +
			`sentinel down-after-milliseconds main 500\nsentinel failover-timeout main 3000\n' "$2" "$3" >sentinel.conf; exec "$1" sentinel.conf --sentinel`,
			"sh", path, strconv.Itoa(port), strconv.Itoa(master.own.Port)}
	}
	p := serverproc.Program{Title: "version " + version + " of " + path, Argv: argv, Ready: "+monitor master main", Signal: "TERM"}
	return serverproc.Loopback(startOwn(t, p, err).Port)
}
