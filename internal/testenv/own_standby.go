package testenv

import (
	"fmt"
	"time"
)

// Standby starts a server that follows this one asynchronously, and returns when
// it does. The settings are as those of OwnPostgres.
func (s *PostgresServer) Standby(settings ...string) *PostgresServer {
	s.own.t.Helper()
	from := fmt.Sprintf("host=127.0.0.1 port=%d user=postgres", s.own.port)
	standby := ownPostgres(s.own.t, nil, from, "database system is ready to accept read-only connections", settings)
	standby.eventually("SELECT count(*) > 0 FROM pg_stat_wal_receiver WHERE status = 'streaming'")
	return standby
}

// CaughtUp returns when every standby that follows s has replayed what s had
// written when it was called. At least one must follow.
func (s *PostgresServer) CaughtUp() {
	s.own.t.Helper()
	now := ask[string](s, "SELECT pg_current_wal_flush_lsn()::text")
	s.eventually("SELECT coalesce(bool_and(replay_lsn >= '" + now + "'), false) FROM pg_stat_replication")
}

// CutOff takes the standby's primary away: it stays a standby, of nobody, with
// what it has got so far.
func (s *PostgresServer) CutOff() {
	s.own.t.Helper()
	s.exec(`ALTER SYSTEM SET primary_conninfo = ''`)
	s.exec("SELECT pg_reload_conf()")
	s.eventually("SELECT count(*) = 0 FROM pg_stat_wal_receiver")
}

// Promote makes a standby a server that may be written to, and returns when it
// is one.
func (s *PostgresServer) Promote() {
	s.own.t.Helper()
	if !ask[bool](s, "SELECT pg_promote(true, 120)") {
		s.own.t.Fatalf("testenv: the standby on port %d is not promoted", s.own.port)
	}
	s.own.program.ready = "database system is ready to accept connections" // when it restarts
}

// eventually returns when sql is true.
func (s *PostgresServer) eventually(sql string) {
	s.own.t.Helper()
	for deadline := time.Now().Add(startTimeout); !ask[bool](s, sql); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.own.t.Fatalf("testenv: PostgreSQL on port %d: never true: %s", s.own.port, sql)
		}
	}
}
