package testenv

import (
	_ "embed"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// program is a server binary of this machine.
type program struct {
	title  string                                 // what to call it, with its version and place
	ready  string                                 // its log says this when it accepts connections
	signal string                                 // ends it at once
	argv   func(folder string, port int) []string // runs it in the foreground
}

//go:embed supervise.sh
var superviseScript string

// startTimeout is far above the second that a start takes: it only ends a hang.
const startTimeout = 2 * time.Minute

// start runs the program on a free port. The server lives until alive is
// closed, which the end of this process does too.
func (p program) start() (port int, alive *os.File, err error) {
	// The port is free when it is chosen and may be taken when the server
	// binds it: other test processes choose at the same time.
	for range 5 {
		if port, err = freePort(); err != nil {
			return 0, nil, err
		}
		if alive, err = p.startOn(port); err == nil {
			return port, alive, nil
		}
	}
	return 0, nil, err
}

func (p program) startOn(port int) (alive *os.File, err error) {
	folder, err := os.MkdirTemp("", "fencepost-testenv-")
	if err != nil {
		return nil, err
	}
	attr, err := serverAttr(folder)
	if err != nil {
		return nil, errors.Join(err, os.Remove(folder))
	}
	read, alive, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, os.Remove(folder))
	}
	defer read.Close()
	args := append([]string{"-c", superviseScript, "sh", p.signal, folder}, p.argv(folder, port)...)
	cmd := exec.Command("sh", args...)
	// No output of this process is handed down: `go test` would wait for it
	// to close.
	cmd.Stdin, cmd.Dir, cmd.SysProcAttr = read, folder, attr
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, alive.Close(), os.Remove(folder))
	}
	if err := p.await(folder); err != nil {
		return nil, errors.Join(err, alive.Close(), cmd.Wait())
	}
	return alive, cmd.Process.Release()
}

// await returns when the server's own log says that it is ready, so that it is
// never taken for another one that has the same port.
func (p program) await(folder string) error {
	for deadline := time.Now().Add(startTimeout); ; time.Sleep(10 * time.Millisecond) {
		log, _ := os.ReadFile(filepath.Join(folder, "log")) // not there yet: not ready
		if strings.Contains(string(log), p.ready) {
			return nil
		}
		if _, err := os.Stat(filepath.Join(folder, "ended")); err == nil || time.Now().After(deadline) {
			return fmt.Errorf("%s did not start: %s", p.title, tail(log))
		}
	}
}

func tail(log []byte) string {
	lines := strings.Split(strings.TrimSpace(string(log)), "\n")
	return strings.Join(lines[max(0, len(lines)-8):], "\n")
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
