package testenv

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// RedisServer is a Redis that one test has for itself. Its methods are for the
// test's goroutine, and end the test where they fail.
type RedisServer struct {
	own    *own
	client *redis.Client
}

// manyErrors is a size that no pool reaches: after so many failures to connect
// go-redis starts a goroutine which outlives the client by a second.
const manyErrors = 100_000

// OwnRedis starts this machine's Redis with the settings, as its command line
// has them ("--appendonly", "yes"), on a port and in a folder of its own. Without
// settings it keeps nothing on disk. It is gone at the end of the test.
func OwnRedis(t testing.TB, settings ...string) *RedisServer {
	t.Helper()
	p, err := redisProgram()
	base := p.argv
	p.argv = func(folder string, port int) []string {
		return append(append(base(folder, port), "--repl-diskless-sync-delay", "0"), settings...)
	}
	s := &RedisServer{own: startOwn(t, p, err)}
	s.client = redis.NewClient(&redis.Options{Addr: s.Addr(), PoolSize: manyErrors})
	t.Cleanup(func() { s.client.Close() }) // an error only says that the test closed it
	s.answers()
	return s
}

// Addr is the server's, "127.0.0.1:port", for as long as the test lasts.
func (s *RedisServer) Addr() string {
	return loopback(s.own.port)
}

// Client is one with go-redis's own settings, which is closed at the end of the
// test and outlives a restart.
func (s *RedisServer) Client() *redis.Client { return s.client }

// Kill ends the server as `kill -9` and a power cut do, and waits for its end.
// Killing it twice is killing it once.
func (s *RedisServer) Kill() { s.own.kill() }

// Restart starts the server again, on the same port, folder and settings, and
// returns when it answers. One that runs is killed first.
func (s *RedisServer) Restart() {
	s.own.t.Helper()
	s.own.restart()
	s.answers()
}

// Pause stops the server, not its connections: it does not answer until Resume.
func (s *RedisServer) Pause() { s.own.t.Helper(); s.own.signal("STOP") }

// Resume lets a paused server go on.
func (s *RedisServer) Resume() { s.own.t.Helper(); s.own.signal("CONT") }

func (s *RedisServer) answers() {
	s.own.t.Helper()
	s.eventually("it does not answer", func() bool { return s.client.Ping(s.own.t.Context()).Err() == nil })
}

// eventually is for what a server does in its own time.
func (s *RedisServer) eventually(otherwise string, done func() bool) {
	s.own.t.Helper()
	for deadline := time.Now().Add(startTimeout); !done(); time.Sleep(5 * time.Millisecond) {
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
