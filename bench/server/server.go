package server

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
)

//go:embed supervise.sh
var superviseScript string

// Server is one that runs.
type Server struct {
	// URL is where it accepts connections.
	URL string

	supervisor *exec.Cmd
	alive      *os.File
}

// Stop ends the server and returns when it and its folder are gone. It is called
// once.
func (s *Server) Stop() error { return errors.Join(s.alive.Close(), s.supervisor.Wait()) }

// start returns a server that accepts connections. Its port is free when it is
// chosen and may be taken when the server binds it, so it tries again.
func start(ctx context.Context, p program) (s *Server, err error) {
	for range 5 {
		var port int
		if port, err = freePort(); err != nil {
			break
		}
		if s, err = startOn(ctx, p, port); err == nil || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("server: %s: %w", p.name, err)
	}
	return s, nil
}

func startOn(ctx context.Context, p program, port int) (*Server, error) {
	folder, err := os.MkdirTemp("", "fencepost-bench-")
	if err != nil {
		return nil, err
	}
	attributes, err := attributes(folder)
	if err != nil {
		return nil, errors.Join(err, os.Remove(folder))
	}
	read, alive, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, os.Remove(folder))
	}
	defer read.Close()
	cmd := exec.Command("sh", append([]string{"-c", superviseScript, "sh", p.signal, folder}, p.argv(folder, port)...)...)
	cmd.Stdin, cmd.Dir, cmd.SysProcAttr = read, folder, attributes
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, alive.Close(), os.Remove(folder))
	}
	s := &Server{URL: p.url(port), supervisor: cmd, alive: alive}
	if err := p.await(ctx, folder); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
