package testenv

import (
	"fmt"
	"net/url"
	"os"
	"sync"
	"testing"
)

// source is where the tests of this process get one of their servers from.
type source struct {
	name  string // what it is, for people
	env   string // names the URL of a server that is already there
	local func() (program, error)
	url   func(port int) string
	shown func(given string) (string, error) // without its password; nil for URLs

	once   sync.Once
	taken  string
	err    error
	alive  *os.File // a local server lives until this is closed; never collected
	serial sync.Mutex
}

// URL is the server's, which is found or started at the first call. It ends the
// test when there is none.
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
	port, alive, err := p.start()
	if err != nil {
		return "", s.missing(err)
	}
	s.alive = alive
	fmt.Fprintf(os.Stderr, "testenv: %s: %s on port %d\n", s.name, p.title, port)
	return s.url(port), nil
}

func (s *source) show(given string) (string, error) {
	if s.shown != nil {
		return s.shown(given)
	}
	u, err := url.Parse(given)
	if err != nil {
		return "", fmt.Errorf("testenv: %s is not a URL", s.env) // err would print its password
	}
	return u.Redacted(), nil
}

func (s *source) missing(err error) error {
	return fmt.Errorf("testenv: no %s for this test: %w\n"+
		"run `make setup`, which installs it where it can, or set %s to the URL of a server",
		s.name, err, s.env)
}

// exclusive gives the server to one test at a time, until that test has ended.
func (s *source) exclusive(t testing.TB, lock string) {
	t.Helper()
	if os.Getenv(s.env) == "" { // a local server is this process's alone
		s.serial.Lock()
		t.Cleanup(s.serial.Unlock)
		return
	}
	unlock, err := lockFile(lock)
	if err != nil {
		t.Fatalf("testenv: lock on %s: %v", s.name, err)
	}
	t.Cleanup(unlock)
}
