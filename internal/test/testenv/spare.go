package testenv

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/internal/test/serverproc"
)

// lossy are settings under which no process of the server flushes the log between a
// test's commit and its crash, however long that takes. Without them an autovacuum would
// commit, and other processes would flush before they write a table.
var lossy = []string{"autovacuum=off", "bgwriter_lru_maxpages=0", "checkpoint_timeout=1d", "max_wal_size=1GB"}

// Spare is a PostgreSQL server for one test, which may crash it. Its methods must be called
// from the test's goroutine.
//
// Its WAL writer is stopped, so that only commits that wait for their flush flush the
// log: a commit that does not wait is lost at the next crash, every time. A DROP DATABASE
// would wait for the WAL writer for ever.
type Spare struct {
	server    *PostgresServer
	walWriter int // its process id
}

// SparePostgres starts this machine's PostgreSQL as a server that the test may crash. It is
// removed at the end of the test.
func SparePostgres(t testing.TB) *Spare {
	t.Helper()
	settings := lossy
	// Before recovery a server syncs all of its files to the disk. On Linux it can sync the
	// whole file system once, in place of a thousand files.
	_, version, err := postgresBinary()
	if major, _, _ := strings.Cut(version, "."); err == nil && runtime.GOOS == "linux" && major != "13" {
		settings = append(slices.Clone(lossy), "recovery_init_sync_method=syncfs")
	}
	s := &Spare{server: OwnPostgres(t, settings...)}
	if err := s.do(s.findWALWriter, s.stopWALWriter); err != nil {
		t.Fatalf("testenv: spare PostgreSQL: %v", err)
	}
	return s
}

// URL returns the superuser's URL. It is the same after a crash.
func (s *Spare) URL() string { return s.server.URL() }

// Crash ends the server as `kill -9` of one of its processes does: it discards its shared
// memory with the log that was not written yet, closes all connections, and recovers.
// Crash returns when it accepts connections again. If it does not, the test fails.
func (s *Spare) Crash() {
	s.server.own.t.Helper()
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
		s.server.own.t.Fatalf("testenv: crash of the spare PostgreSQL: %v", err)
	}
}

// step is an action over a connection to the server.
type step func(ctx context.Context, conn *pgx.Conn) error

// do runs the steps over a connection of its own.
func (s *Spare) do(steps ...step) error {
	ctx := s.server.own.t.Context()
	conn, err := pgx.Connect(ctx, s.URL())
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

// signal sends a signal to the WAL writer through the server, as whose user it runs. The
// query has no rows: PostgreSQL cannot write rows to a program that has ended.
func (s *Spare) signal(name string) step {
	return func(ctx context.Context, conn *pgx.Conn) error {
		return statement(fmt.Sprintf("COPY (SELECT WHERE false) TO PROGRAM 'kill %s %d'", name, s.walWriter))(ctx, conn)
	}
}
