package testenv

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/internal/test/serverproc"
)

//go:embed own_postgres.sh
var ownPostgresScript string

// PostgresServer is a PostgreSQL server for one test. Its methods must be called from the
// test's goroutine, and fail the test if they fail.
type PostgresServer struct {
	own own
}

// OwnPostgres starts this machine's PostgreSQL with default settings except those given
// ("wal_level=logical"), on a port and in a folder of its own. It is removed at the end
// of the test.
func OwnPostgres(t testing.TB, settings ...string) *PostgresServer {
	t.Helper()
	from, err := postgresTemplate()
	return ownPostgres(t, err, from.data, "database system is ready to accept connections", settings)
}

func ownPostgres(t testing.TB, err error, from, ready string, settings []string) *PostgresServer {
	t.Helper()
	p, bin, missing := ownPostgresProgram()
	if missing != nil {
		err = missing
	}
	settings = slices.Concat(localSettings, []string{"shared_buffers=16MB", "max_wal_size=128MB"}, settings)
	p.Ready = ready
	p.Argv = func(folder string, port int) []string {
		data := filepath.Join(folder, "data")
		args := []string{"sh", "-c", ownPostgresScript, "sh", bin, data, from, "-p", strconv.Itoa(port)}
		for _, s := range settings {
			args = append(args, "-c", s)
		}
		return args
	}
	s := &PostgresServer{own: startOwn(t, p, err)}
	s.exec("SELECT")
	return s
}

// ownPostgresProgram also returns the folder of the binaries: PATH may only have links to
// them.
func ownPostgresProgram() (p serverproc.Program, bin string, err error) {
	if p, err = postgresProgram(); err != nil {
		return p, "", err
	}
	bin, _, _ = postgresBinary() // cannot fail: postgresProgram has found it
	path, err := filepath.EvalSymlinks(filepath.Join(bin, "postgres"))
	return p, filepath.Dir(path), err
}

// URL returns the superuser's URL, without a password. It is the same after a restart.
func (s *PostgresServer) URL() string { return postgresURL(s.own.Port) }

// Addr returns the server's address, "127.0.0.1:port".
func (s *PostgresServer) Addr() string {
	return serverproc.Loopback(s.own.Port)
}

// Kill ends all processes of the server, as `kill -9` or a power cut does, and waits for
// their end. A second call does nothing.
func (s *PostgresServer) Kill() { s.own.Kill() }

// Restart starts the server again with the same port, folder and settings, and returns
// when it has recovered and accepts connections. It kills a running server first.
func (s *PostgresServer) Restart() {
	s.own.t.Helper()
	s.own.restart()
	s.exec("SELECT")
}

// template is a folder that exists while its process runs.
type template struct {
	data    string
	process *serverproc.Process // never collected: postgresTemplate keeps it
}

// postgresTemplate returns the folder of a database cluster without a server. It is made
// once, since that takes as long as ten copies, and removed at the end of this process.
var postgresTemplate = sync.OnceValues(func() (template, error) {
	var data string
	_, bin, err := ownPostgresProgram()
	if err != nil {
		return template{}, err
	}
	script := `"$1/initdb" -D "$2" -U postgres -A trust -E UTF8 --locale=C --no-sync && echo made && exec sleep 1000000`
	process, err := serverproc.Start(serverproc.Program{Title: "initdb", Ready: "made", Argv: func(folder string, _ int) []string {
		data = filepath.Join(folder, "data")
		return []string{"sh", "-c", script, "sh", bin, data}
	}})
	return template{data, process}, err
})

// queryValue returns the one value that sql selects.
func queryValue[T any](s *PostgresServer, sql string) (value T) {
	s.own.t.Helper()
	s.do(sql, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, sql).Scan(&value)
	})
	return value
}

func (s *PostgresServer) exec(sql string) {
	s.own.t.Helper()
	s.do(sql, statement(sql))
}

// do opens a new connection, since the server may have been restarted.
func (s *PostgresServer) do(sql string, step step) {
	s.own.t.Helper()
	ctx := s.own.t.Context()
	conn, err := pgx.Connect(ctx, s.URL())
	if err == nil {
		err = step(ctx, conn)
		conn.Close(ctx)
	}
	if err != nil {
		s.own.t.Fatalf("testenv: PostgreSQL on port %d: %s: %v", s.own.Port, sql, err)
	}
}

// ReplicaOf makes the server a replica of master, and returns when it has all data of
// master. CutOff ends the replication.
func (s *RedisServer) ReplicaOf(master *RedisServer) {
	s.own.t.Helper()
	s.must("REPLICAOF", "127.0.0.1", strconv.Itoa(master.own.Port))
	s.eventually("the replica does not get its master's data", func() bool { return s.info("master_link_status:up") })
}

// CutOff disconnects the replica from its master. It stays a replica, with the data that
// it has received so far.
func (s *RedisServer) CutOff() {
	s.own.t.Helper()
	s.must("REPLICAOF", "127.0.0.1", "1") // nothing listens there
	s.eventually("the replica is not cut off", func() bool { return s.info("master_link_status:down") })
}

// Promote makes a replica a master, with the data that it has received so far.
func (s *RedisServer) Promote() { s.own.t.Helper(); s.must("REPLICAOF", "NO", "ONE") }

func (s *RedisServer) info(line string) bool {
	return strings.Contains(s.client.Info(s.own.t.Context(), "replication").Val(), line)
}

// Standby starts a server that replicates this one asynchronously, and returns when it
// does. The settings are as in OwnPostgres.
func (s *PostgresServer) Standby(settings ...string) *PostgresServer {
	s.own.t.Helper()
	from := fmt.Sprintf("host=127.0.0.1 port=%d user=postgres", s.own.Port)
	standby := ownPostgres(s.own.t, nil, from, "database system is ready to accept read-only connections", settings)
	standby.eventually("SELECT count(*) > 0 FROM pg_stat_wal_receiver WHERE status = 'streaming'")
	return standby
}

// CaughtUp returns when every standby of s has replayed all that s had written at the
// time of the call. There must be a standby.
func (s *PostgresServer) CaughtUp() {
	s.own.t.Helper()
	now := queryValue[string](s, "SELECT pg_current_wal_flush_lsn()::text")
	s.eventually("SELECT coalesce(bool_and(replay_lsn >= '" + now + "'), false) FROM pg_stat_replication")
}

// CutOff disconnects the standby from its primary. It stays a standby, with the data that
// it has received so far.
func (s *PostgresServer) CutOff() {
	s.own.t.Helper()
	s.exec(`ALTER SYSTEM SET primary_conninfo = ''`)
	s.exec("SELECT pg_reload_conf()")
	s.eventually("SELECT count(*) = 0 FROM pg_stat_wal_receiver")
}

// Promote makes a standby a primary, and returns when it accepts writes.
func (s *PostgresServer) Promote() {
	s.own.t.Helper()
	if !queryValue[bool](s, "SELECT pg_promote(true, 120)") {
		s.own.t.Fatalf("testenv: the standby on port %d is not promoted", s.own.Port)
	}
	s.own.Program.Ready = "database system is ready to accept connections" // logged at the next restart
}

// eventually returns when sql is true.
func (s *PostgresServer) eventually(sql string) {
	s.own.t.Helper()
	for deadline := time.Now().Add(serverproc.Timeout); !queryValue[bool](s, sql); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.own.t.Fatalf("testenv: PostgreSQL on port %d: never true: %s", s.own.Port, sql)
		}
	}
}

//go:embed own_pgpool.sh
var ownPgpoolScript string

// OwnPgpool starts a pgpool in front of a primary and its standby, and returns the
// superuser's URL. It sends statements that it classifies as reads to the standby, and
// others to the primary. The settings are lines of pgpool.conf ("read_only_function_list
// = '.*admit.*'"). It is removed at the end of the test.
func OwnPgpool(t testing.TB, primary, standby *PostgresServer, settings ...string) string {
	t.Helper()
	path, err := pgpoolBinary()
	p := serverproc.Program{Title: "pgpool of " + path, Ready: "successfully started"}
	p.Argv = func(_ string, port int) []string {
		return append([]string{"sh", "-c", ownPgpoolScript, "sh", path,
			fmt.Sprint(port), fmt.Sprint(primary.own.Port), fmt.Sprint(standby.own.Port)}, settings...)
	}
	return postgresURL(startOwn(t, p, err).Port)
}

// pgpoolBinary also searches /usr/sbin, where Debian puts it and which may be missing
// from PATH.
func pgpoolBinary() (path string, err error) {
	for _, name := range []string{"pgpool", "/usr/sbin/pgpool"} {
		if path, err = exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("neither PATH nor /usr/sbin has pgpool")
}
