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
	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/internal/test/serverproc"
)

var sparePostgres = source{
	name: "spare PostgreSQL", env: EnvSparePostgres, url: postgresURL,
	local: sparePostgresProgram,
}

// sparePostgresProgram returns a server that recovers fast. Before recovery a server
// syncs all of its files to the disk. On Linux it can sync the whole file system once, in
// place of a thousand files.
func sparePostgresProgram() (serverproc.Program, error) {
	_, version, err := postgresBinary()
	if major, _, _ := strings.Cut(version, "."); err == nil && runtime.GOOS == "linux" && major != "13" {
		return postgresProgram(append(lossy, "recovery_init_sync_method=syncfs")...)
	}
	return postgresProgram(lossy...)
}

// lossy are settings under which no process of the server flushes the log between a
// test's commit and its crash, however long that takes. Without them an autovacuum would
// commit, and other processes would flush before they write a table.
var lossy = []string{"autovacuum=off", "bgwriter_lru_maxpages=0", "checkpoint_timeout=1d"}

// Spare is a PostgreSQL server for one test, with an empty database of its own. Its
// methods must be called from the test's goroutine.
//
// Its WAL writer is stopped, so that only commits that wait for their flush flush the
// log: a commit that does not wait is lost at the next crash, every time. A DROP DATABASE
// would wait for the WAL writer for ever.
type Spare struct {
	t         testing.TB
	admin     string // the URL of a database that is not dropped
	database  string
	walWriter int // its process id
}

// SparePostgres waits until no other test has the spare server, and returns it. Its
// database is dropped at the end of the test.
func SparePostgres(t testing.TB) *Spare {
	t.Helper()
	s := &Spare{t: t, admin: sparePostgres.URL(t), database: unique("fencepost_test_")}
	sparePostgres.exclusive(t, "spare-postgres")
	name := pgx.Identifier{s.database}.Sanitize()
	err := s.do(
		s.findWALWriter,
		s.signal("-CONT"), // after a test that was killed
		statement("CREATE DATABASE "+name),
		s.stopWALWriter,
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

// URL returns the URL of the test's own database, for a superuser.
func (s *Spare) URL() string {
	u, err := url.Parse(s.admin)
	if err != nil {
		s.t.Fatalf("testenv: %s is not a URL", EnvSparePostgres)
	}
	u.Path = "/" + s.database
	return u.String()
}

// Crash ends the server as `kill -9` of one of its processes does: it discards its shared
// memory with the log that was not written yet, closes all connections, and recovers.
// Crash returns when it accepts connections again. If it does not, the test fails.
func (s *Spare) Crash() {
	s.t.Helper()
	before := s.walWriter
	// $PPID is the server process of this connection. The WAL writer is killed with it,
	// since the other processes would wait for the stopped one.
	err := s.do(func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, fmt.Sprintf("COPY (SELECT WHERE false) TO PROGRAM 'kill -9 $PPID %d'", before))
		if !conn.IsClosed() {
			return errors.Join(errors.New("the server process outlived kill -9"), err)
		}
		return nil
	})
	// Until the server has noticed the crash it accepts connections, which then break. A
	// new WAL writer shows that the recovery is complete.
	for deadline := time.Now().Add(serverproc.Timeout); err == nil && s.walWriter == before; time.Sleep(10 * time.Millisecond) {
		if refused := s.do(s.findWALWriter); time.Now().After(deadline) {
			err = errors.Join(errors.New("the server does not recover"), refused)
		}
	}
	if err == nil {
		err = s.do(s.stopWALWriter)
	}
	if err != nil {
		s.t.Fatalf("testenv: crash of the spare PostgreSQL: %v", err)
	}
}

var spareRedis = source{name: "spare Redis", env: EnvSpareRedis, url: redisURL, local: redisProgram}

// SpareRedis returns a client of a second Redis server, which is empty and reserved for
// this test: it may be flushed, filled and reconfigured. At the end of the test it is
// emptied and the client is closed. The test must restore settings that it changes.
// SpareRedis fails the test if the spare server is the shared server.
func SpareRedis(t testing.TB) *redis.Client {
	t.Helper()
	options := redisOptions(t, spareRedis.URL(t))
	if options.Addr == redisOptions(t, RedisURL(t)).Addr {
		t.Fatalf("testenv: %s and %s are one server, which must not be emptied", EnvSpareRedis, EnvRedis)
	}
	spareRedis.exclusive(t, "spare-redis")
	empty := func() {
		ctx, cancel := afterTest(t)
		defer cancel()
		own := redis.NewClient(options) // the test may have closed its client
		defer own.Close()
		if err := own.FlushAll(ctx).Err(); err != nil {
			t.Errorf("testenv: empty the spare Redis: %v", err)
		}
	}
	empty()
	t.Cleanup(empty)
	client := redis.NewClient(options)
	t.Cleanup(func() { client.Close() }) // an error means that the test closed it
	return client
}

// step is an action over a connection to the server.
type step func(ctx context.Context, conn *pgx.Conn) error

// do runs the steps over a connection of its own. It can be called after the test.
func (s *Spare) do(steps ...step) error {
	ctx, cancel := afterTest(s.t)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.admin)
	if err != nil {
		return err
	}
	for _, step := range steps {
		if err = step(ctx, conn); err != nil {
			break
		}
	}
	return errors.Join(err, conn.Close(ctx))
}

func statement(sql string) step {
	return func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, sql)
		return err
	}
}

// findWALWriter waits for the WAL writer, which starts a moment after the server accepts
// connections.
func (s *Spare) findWALWriter(ctx context.Context, conn *pgx.Conn) error {
	for {
		row := conn.QueryRow(ctx, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'")
		if err := row.Scan(&s.walWriter); !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// stopWALWriter stops the WAL writer in its main loop, where it holds no lock. If it were
// stopped with a lock, for example in an fsync, it would block every commit for ever, out
// of reach of statement_timeout. In that case it is continued and stopped again.
func (s *Spare) stopWALWriter(ctx context.Context, conn *pgx.Conn) error {
	for {
		if err := s.signal("-STOP")(ctx, conn); err != nil {
			return err
		}
		// Its wait event does not change any more: since the signal, the server process
		// of this connection has started a program and waited for it.
		var idle bool
		row := conn.QueryRow(ctx, "SELECT count(*) > 0 FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'WalWriterMain'", s.walWriter)
		if err := row.Scan(&idle); err != nil || idle {
			return err
		}
		if err := s.signal("-CONT")(ctx, conn); err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// signal sends a signal to the WAL writer through the server, which may be in a
// container. The query has no rows: PostgreSQL cannot write rows to a program that has
// ended.
func (s *Spare) signal(name string) step {
	return func(ctx context.Context, conn *pgx.Conn) error {
		return statement(fmt.Sprintf("COPY (SELECT WHERE false) TO PROGRAM 'kill %s %d'", name, s.walWriter))(ctx, conn)
	}
}
