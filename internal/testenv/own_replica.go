package testenv

import (
	"strconv"
	"strings"
)

// ReplicaOf makes the server a replica of master, and returns when it has all
// that master has. master may be cut off again by CutOff.
func (s *RedisServer) ReplicaOf(master *RedisServer) {
	s.own.t.Helper()
	s.must("REPLICAOF", "127.0.0.1", strconv.Itoa(master.own.port))
	s.eventually("it does not get its master's data", func() bool { return s.info("master_link_status:up") })
}

// CutOff takes the server's master away: it stays a replica, of nobody, with
// what it has got so far.
func (s *RedisServer) CutOff() {
	s.own.t.Helper()
	s.must("REPLICAOF", "127.0.0.1", "1") // where nothing listens
	s.eventually("it is not cut off", func() bool { return s.info("master_link_status:down") })
}

// Promote makes a replica a master, with what it has got so far.
func (s *RedisServer) Promote() { s.own.t.Helper(); s.must("REPLICAOF", "NO", "ONE") }

func (s *RedisServer) info(line string) bool {
	return strings.Contains(s.client.Info(s.own.t.Context(), "replication").Val(), line)
}
