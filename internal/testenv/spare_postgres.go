package testenv

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

var sparePostgres = source{
	name: "spare PostgreSQL", env: EnvSparePostgres, url: postgresURL,
	local: sparePostgresProgram,
}

// sparePostgresProgram is a server that recovers soon. Before that it asks for
// all of its files to be on the disk: of the file system, where it can do that,
// which is once, and not a thousand times.
func sparePostgresProgram() (program, error) {
	_, version, err := postgresBinary()
	if major, _, _ := strings.Cut(version, "."); err == nil && runtime.GOOS == "linux" && major != "13" {
		return postgresProgram("recovery_init_sync_method=syncfs")
	}
	return postgresProgram()
}

// Spare is a PostgreSQL server that one test has for itself, with an empty
// database of its own. Its methods are for the test's goroutine.
//
// Its WAL writer is stopped, so that nothing flushes the log but those who must:
// a commit that did not wait for its flush is lost at the next crash, every
// time. A DROP DATABASE would wait for that process for ever.
type Spare struct {
	t         testing.TB
	admin     string // a database that stays
	database  string
	walWriter int // its process
}

// SparePostgres waits until no other test has the spare server and returns it.
// At the end of the test its database is dropped.
func SparePostgres(t testing.TB) *Spare {
	t.Helper()
	s := &Spare{t: t, admin: sparePostgres.URL(t), database: unique("fencepost_test_")}
	sparePostgres.exclusive(t, "spare-postgres")
	name := pgx.Identifier{s.database}.Sanitize()
	err := s.do(
		s.findWALWriter,
		s.signal("-CONT"), // of a test that was killed
		statement("CREATE DATABASE "+name),
		s.signal("-STOP"),
	)
	if err != nil {
		t.Fatalf("testenv: spare PostgreSQL, which needs a superuser: %v", err)
	}
	t.Cleanup(func() {
		err := s.do(s.signal("-CONT"), statement("DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"))
		if err != nil {
			t.Errorf("testenv: leave the spare PostgreSQL: %v", err)
		}
	})
	return s
}

// URL is that of the test's own database, for a superuser.
func (s *Spare) URL() string {
	u, err := url.Parse(s.admin)
	if err != nil {
		s.t.Fatalf("testenv: %s is not a URL", EnvSparePostgres)
	}
	u.Path = "/" + s.database
	return u.String()
}

// Crash ends the server as `kill -9` of one of its processes does: it throws its
// shared memory away, with the log that was not written yet, closes every
// connection, and recovers. Crash returns when it accepts connections again, and
// ends the test when it does not.
func (s *Spare) Crash() {
	s.t.Helper()
	before := s.walWriter
	// $PPID is the server process of this connection. The WAL writer goes with
	// it, since a stopped process would keep the others waiting.
	err := s.do(func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, fmt.Sprintf("COPY (SELECT WHERE false) TO PROGRAM 'kill -9 $PPID %d'", before))
		if !conn.IsClosed() {
			return errors.Join(errors.New("the server process outlived kill -9"), err)
		}
		return nil
	})
	// Until the crash is noticed, the server goes on to accept connections,
	// which then die: a new WAL writer shows that it is over.
	for deadline := time.Now().Add(startTimeout); err == nil && s.walWriter == before; time.Sleep(10 * time.Millisecond) {
		if refused := s.do(s.findWALWriter); time.Now().After(deadline) {
			err = errors.Join(errors.New("it does not recover"), refused)
		}
	}
	if err == nil {
		err = s.do(s.signal("-STOP"))
	}
	if err != nil {
		s.t.Fatalf("testenv: crash of the spare PostgreSQL: %v", err)
	}
}
