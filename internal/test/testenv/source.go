package testenv

import (
	"fmt"
	"net/url"
	"os"
	"sync"
	"testing"

	"github.com/fencepost/fencepost/internal/test/serverproc"
)

// source is one of the servers for the tests of this process.
type source struct {
	name  string // for people
	env   string // the variable with the URL of a running server
	local func() (serverproc.Program, error)
	url   func(port int) string
	shown func(given string) (string, error) // returns it without its password; nil for URLs

	once    sync.Once
	taken   string
	err     error
	process *serverproc.Process // a local server; never collected
}

// URL returns the server's URL. The first call finds or starts the server. If there is
// none, URL fails the test.
func (s *source) URL(t testing.TB) string {
	t.Helper()
	s.once.Do(func() { s.taken, s.err = s.take() })
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.taken
}

func (s *source) take() (string, error) {
	if given := os.Getenv(s.env); given != "" {
		shown, err := s.show(given)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(os.Stderr, "testenv: %s at %s (%s)\n", s.name, shown, s.env)
		return given, nil
	}
	p, err := s.local()
	if err != nil {
		return "", s.missing(err)
	}
	if s.process, err = serverproc.Start(p); err != nil {
		return "", s.missing(err)
	}
	fmt.Fprintf(os.Stderr, "testenv: %s: %s on port %d\n", s.name, p.Title, s.process.Port)
	return s.url(s.process.Port), nil
}

func (s *source) show(given string) (string, error) {
	if s.shown != nil {
		return s.shown(given)
	}
	u, err := url.Parse(given)
	if err != nil {
		return "", fmt.Errorf("testenv: %s is not a URL", s.env) // err would contain the password
	}
	return u.Redacted(), nil
}

func (s *source) missing(err error) error {
	return fmt.Errorf("testenv: no %s for this test: %w\n"+
		"run `make setup`, which installs it if it can, or set %s to the URL of a server",
		s.name, err, s.env)
}

// Server is a server for a program that is not a test.
type Server struct {
	// URL is a superuser's if there are users. It needs no password.
	URL string

	process *serverproc.Process
}

// StartPostgres starts a binary of this machine, in a folder of its own, with default
// settings except those given ("fsync=on"). The server and its folder are removed by Stop,
// or soon after the end of this process, however it ends.
func StartPostgres(settings ...string) (*Server, error) {
	p, err := postgresProgram(settings...)
	return startServer(p, err, postgresURL)
}

// StartRedis is StartPostgres for a Redis that stores nothing on disk.
func StartRedis() (*Server, error) {
	p, err := redisProgram()
	return startServer(p, err, redisURL)
}

// StartMariaDB is StartPostgres for MariaDB. Its URL is a DSN of
// github.com/go-sql-driver/mysql.
func StartMariaDB(settings ...string) (*Server, error) {
	p, err := mariadbProgram(settings...)
	return startServer(p, err, mariadbDSN)
}

func startServer(p serverproc.Program, err error, url func(port int) string) (*Server, error) {
	if err != nil {
		return nil, err
	}
	process, err := serverproc.Start(p)
	if err != nil {
		return nil, err
	}
	return &Server{URL: url(process.Port), process: process}, nil
}

// Stop ends the server. It must be called once.
func (s *Server) Stop() error { return s.process.Remove() }
