package testenv

import (
	_ "embed"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

//go:embed own_postgres.sh
var ownPostgresScript string

// PostgresServer is a PostgreSQL that one test has for itself. Its methods are
// for the test's goroutine, and end the test where they fail.
type PostgresServer struct {
	own *own
}

// OwnPostgres starts this machine's PostgreSQL with its own settings but for
// those given ("wal_level=logical"), on a port and in a folder of its own. It is
// gone at the end of the test.
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
	settings = append([]string{
		"listen_addresses=127.0.0.1", "unix_socket_directories=", "shared_buffers=16MB", "max_wal_size=128MB",
	}, settings...)
	p.ready = ready
	p.argv = func(folder string, port int) []string {
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

// ownPostgresProgram also tells the folder of the binaries, which PATH may only
// have links to.
func ownPostgresProgram() (p program, bin string, err error) {
	if p, err = postgresProgram(); err != nil {
		return p, "", err
	}
	bin, _, _ = postgresBinary() // known by now
	path, err := filepath.EvalSymlinks(filepath.Join(bin, "postgres"))
	return p, filepath.Dir(path), err
}

// URL is the superuser's, without a password, for as long as the test lasts.
func (s *PostgresServer) URL() string { return postgresURL(s.own.port) }

// Addr is the server's, "127.0.0.1:port".
func (s *PostgresServer) Addr() string {
	return loopback(s.own.port)
}

// Kill ends all processes of the server as `kill -9` and a power cut do, and
// waits for their end. Killing it twice is killing it once.
func (s *PostgresServer) Kill() { s.own.kill() }

// Restart starts the server again, on the same port, folder and settings, and
// returns when it has recovered and answers. One that runs is killed first.
func (s *PostgresServer) Restart() {
	s.own.t.Helper()
	s.own.restart()
	s.exec("SELECT")
}

// template is a folder that lives for as long as its file is open.
type template struct {
	data  string
	alive *os.File // never collected: postgresTemplate keeps it
}

// postgresTemplate is the folder of a database cluster that no server runs on.
// It is made once, which takes as long as ten copies, and goes with this process.
var postgresTemplate = sync.OnceValues(func() (template, error) {
	var data string
	_, bin, err := ownPostgresProgram()
	if err != nil {
		return template{}, err
	}
	script := `"$1/initdb" -D "$2" -U postgres -A trust -E UTF8 --locale=C --no-sync && echo made && exec sleep 1000000`
	_, alive, err := program{title: "initdb", ready: "made", signal: "TERM",
		argv: func(folder string, _ int) []string {
			data = filepath.Join(folder, "data")
			return []string{"sh", "-c", script, "sh", bin, data}
		}}.start()
	return template{data: data, alive: alive}, err
})
