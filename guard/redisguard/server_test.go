package redisguard_test

import (
	"net"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// server is one of this machine's binary that a test has for itself, with
// settings of its own: a replica, a node of a Cluster, one that may be killed.
type server struct {
	*testing.T
	addr   string
	argv   []string
	alive  *os.File
	cmd    *exec.Cmd
	folder string
}

// serve starts a server without persistence, unless the settings say otherwise.
// It is gone at the end of the test, and of this process.
func serve(t *testing.T, settings ...string) *server {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		path, err = exec.LookPath("valkey-server")
	}
	require.NoError(t, err, "this test starts a server of its own: run `make setup`, or put redis-server into PATH")
	port := freePort(t)
	s := &server{T: t, addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), folder: t.TempDir()}
	s.argv = append([]string{
		path, "--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", s.folder,
		"--save", "", "--appendonly", "no", "--enable-protected-configs", "yes",
	}, settings...)
	t.Cleanup(func() { s.kill() })
	s.launch()
	s.ready()
	return s
}

// freePort is one of which a node of a Cluster can have the ten thousandth after
// it as well.
func freePort(t *testing.T) int {
	t.Helper()
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		port := l.Addr().(*net.TCPAddr).Port
		require.NoError(t, l.Close())
		if port+10_000 < 1<<16 {
			return port
		}
	}
}

// launch runs the server for as long as its shell's standard input is open.
func (s *server) launch() {
	s.Helper()
	read, alive, err := os.Pipe()
	require.NoError(s, err)
	defer read.Close()
	s.alive = alive
	script := `"$@" </dev/null >/dev/null 2>&1 & read -r _; kill -9 $!; wait $!`
	s.cmd = exec.Command("sh", append([]string{"-c", script, "sh"}, s.argv...)...)
	s.cmd.Stdin = read
	require.NoError(s, s.cmd.Start())
}

// kill ends the server as a power cut does.
func (s *server) kill() {
	if s.alive != nil {
		_ = s.alive.Close()
		_ = s.cmd.Wait() // it reports the signal
		s.alive = nil
	}
}

func (s *server) ready() {
	s.Helper()
	client := s.client()
	defer client.Close()
	eventually(s.T, func() bool { return client.Ping(s.Context()).Err() == nil }, "the server starts")
}

// restart kills the server and starts it again.
func (s *server) restart() {
	s.Helper()
	s.kill()
	s.launch()
	s.ready()
}

func (s *server) client(change ...func(*redis.Options)) *redis.Client {
	s.Helper()
	options := redis.Options{Addr: s.addr, MinRetryBackoff: -1}
	for _, change := range change {
		change(&options)
	}
	return connect(s.T, options)
}

// env is the server's, which is empty.
func (s *server) env() *env { s.Helper(); return envOn(s.T, s.client(), "own") }

func (e *env) set(setting, value string) {
	e.Helper()
	require.NoError(e, e.client.ConfigSet(e.Context(), setting, value).Err())
}
