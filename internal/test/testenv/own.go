package testenv

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

//go:embed own.sh
var ownScript string

// own is a server process for one test: it can be killed, as by a power cut, and started
// again with the same folder and port. It is removed at the end of the test, or soon
// after the end of this process. Its methods must be called from the test's goroutine.
type own struct {
	t       testing.TB
	program program
	alive   *os.File // nil while it does not run
	shell   *exec.Cmd

	port     int
	reserved io.Closer // open while the port is reserved
	folder   string
}

// startOwn starts the program on a free port, in an empty folder. If err is not nil, it
// is the reason why there is no program, and startOwn fails the test.
func startOwn(t testing.TB, p program, err error) *own {
	t.Helper()
	o := &own{t: t, program: p}
	t.Cleanup(o.remove)
	if err == nil {
		err = o.start()
	}
	if err != nil {
		t.Fatalf("testenv: this test starts a server of its own: %v\n"+
			"run `make setup`, which installs it if it can", err)
	}
	return o
}

// start retries, since another process may take the port before the server binds it.
func (o *own) start() (err error) {
	for range 5 {
		if o.port, o.reserved, err = ownPort(); err != nil {
			return err
		}
		if o.folder, err = os.MkdirTemp("", "fencepost-testenv-"); err != nil {
			return err
		}
		if err = o.launch(); err == nil {
			return nil
		}
		o.remove()
	}
	return err
}

// launch returns when the server is ready.
func (o *own) launch() error {
	attr, err := serverAttr(o.folder)
	if err != nil {
		return err
	}
	read, alive, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	argv := append([]string{"-c", ownScript, "sh", o.folder}, o.program.argv(o.folder, o.port)...)
	o.shell = exec.Command("sh", argv...)
	o.shell.Stdin, o.shell.Dir, o.shell.SysProcAttr = read, o.folder, attr
	o.shell.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	// Remove what the last run wrote.
	for _, left := range []string{"log", "ended", "pid"} {
		if err := os.RemoveAll(filepath.Join(o.folder, left)); err != nil {
			return errors.Join(err, alive.Close())
		}
	}
	if err := o.shell.Start(); err != nil {
		return errors.Join(err, alive.Close())
	}
	o.alive = alive
	return o.program.await(o.folder)
}

// kill returns when no process of the server is left. Its files stay.
func (o *own) kill() {
	if o.alive == nil {
		return
	}
	fmt.Fprintln(o.alive, "keep")
	o.alive.Close()
	_ = o.shell.Wait() // it returns an error after a kill
	o.alive = nil
}

func (o *own) restart() {
	o.t.Helper()
	o.kill()
	if err := o.launch(); err != nil {
		o.t.Fatalf("testenv: restart: %v", err)
	}
}

func (o *own) remove() {
	o.kill()
	err := os.RemoveAll(o.folder)
	if o.reserved != nil {
		err = errors.Join(err, o.reserved.Close())
	}
	o.folder, o.reserved = "", nil
	if err != nil {
		o.t.Errorf("testenv: %v", err)
	}
}

// signal returns when the signal was sent, and after STOP when the server is stopped.
func (o *own) signal(name string) {
	o.t.Helper()
	pid, err := os.ReadFile(filepath.Join(o.folder, "pid"))
	if err == nil && o.alive == nil {
		err = errors.New("the server does not run")
	}
	if err == nil {
		script := `kill -s "$1" "$2" && while [ "$1" = STOP ] && ps -o stat= -p "$2" | grep -q '^[^T]'; do sleep 0.01; done`
		err = exec.Command("sh", "-c", script, "sh", name, strings.TrimSpace(string(pid))).Run()
	}
	if err != nil {
		o.t.Fatalf("testenv: signal %s to a server: %v", name, err)
	}
}

// Ports of servers that are restarted are below those that the kernel gives to outgoing
// connections: no connection must take the port while the server is down. A node of a
// Redis Cluster also uses the port 10,000 above its own.
const (
	firstPort = 10_000
	lastPort  = 20_000
	busPort   = 10_000
)

// ownPort returns a port that no other test gets while reserved is open. reserved is the
// UDP port of the same number, which is released when this process ends.
func ownPort() (port int, reserved io.Closer, err error) {
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		reserved, err := net.ListenPacket("udp", loopback(port))
		if err != nil {
			continue
		}
		if isFree(port) && isFree(port+busPort) {
			return port, reserved, nil
		}
		if err := reserved.Close(); err != nil {
			return 0, nil, err
		}
	}
	return 0, nil, errors.New("no port is free")
}

func isFree(port int) bool {
	l, err := net.Listen("tcp", loopback(port))
	return err == nil && l.Close() == nil
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

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
			node.must("CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(earlier.own.port))
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
