package serverproc

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Program is a server program of this machine.
type Program struct {
	// Title names it in errors, with its version and path.
	Title string
	// Argv returns the command that runs it in the foreground, on a port of 127.0.0.1, with
	// all its files in folder, which is also its working folder. It is called at each start.
	Argv func(folder string, port int) []string
	// Ready is what its log contains when it accepts connections. A connection would not show
	// that: another server may listen on the same port.
	Ready string
	// Signal ends it at once, with its children, and frees what it shares with them. Empty
	// means KILL, as in a power cut: for a server that a test may stop by a signal.
	Signal string
}

// Process is a server process of this machine. It ends soon after this process, however
// this process ends. Its methods must not be called at the same time.
type Process struct {
	// Port and Folder are the same after a Restart.
	Port   int
	Folder string

	// Program is what the next Restart starts.
	Program Program

	lock     *os.File
	alive    *os.File // nil while it does not run
	shell    *exec.Cmd
	reserved io.Closer // open while the port is reserved
}

// Timeout is far above the seconds that a start takes: it ends only a hang.
const Timeout = 5 * time.Minute

//go:embed process.sh
var processScript string

// Start starts a server on a free port, in an empty folder, and returns when it is ready.
// If it does not start, the error has the end of its log, and nothing is left.
func Start(program Program) (*Process, error) {
	var err error
	// Another process may take the port before the server binds it.
	for range 5 {
		p := &Process{Program: program}
		if p.Port, p.reserved, err = ReservePort(); err == nil {
			p.Folder, p.lock, err = newFolder()
		}
		if err == nil {
			err = p.Restart()
		}
		if err == nil {
			return p, nil
		}
		err = errors.Join(err, p.Remove())
	}
	return nil, err
}

// Restart kills the server if it runs, starts it again in its folder, and returns when it
// is ready.
func (p *Process) Restart() error {
	p.Kill()
	attr, err := serverAttr(p.Folder)
	if err != nil {
		return err
	}
	read, alive, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	// The server must not inherit this process's output: `go test` would wait for it to
	// close.
	p.shell = shell(processScript, append([]string{p.Folder, p.Program.Signal}, p.Program.Argv(p.Folder, p.Port)...)...)
	p.shell.Stdin, p.shell.ExtraFiles = read, []*os.File{p.lock}
	p.shell.Dir, p.shell.SysProcAttr = p.Folder, attr
	p.shell.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	// Remove what the last run wrote.
	for _, left := range []string{"log", "ended", "pid"} {
		err = errors.Join(err, os.RemoveAll(filepath.Join(p.Folder, left)))
	}
	if err == nil {
		err = p.shell.Start()
	}
	if err != nil {
		return errors.Join(err, alive.Close())
	}
	p.alive = alive
	return p.await()
}

// await returns when the server is ready.
func (p *Process) await() error {
	for deadline := time.Now().Add(Timeout); ; time.Sleep(10 * time.Millisecond) {
		log, _ := os.ReadFile(filepath.Join(p.Folder, "log")) // no log yet: not ready
		if strings.Contains(string(log), p.Program.Ready) {
			return nil
		}
		if _, err := os.Stat(filepath.Join(p.Folder, "ended")); err == nil || time.Now().After(deadline) {
			return fmt.Errorf("%s did not start: %s", p.Program.Title, tail(log))
		}
	}
}

func tail(log []byte) string {
	lines := strings.Split(strings.TrimSpace(string(log)), "\n")
	return strings.Join(lines[max(0, len(lines)-8):], "\n")
}

// Running reports whether it was started and not killed.
func (p *Process) Running() bool { return p.alive != nil }

// Kill ends the server, as `kill -9` or a power cut does, and returns when none of its
// processes is left. Its files stay. A second call does nothing.
func (p *Process) Kill() {
	if p.alive != nil {
		fmt.Fprintln(p.alive, "keep")
		p.end()
	}
}

func (p *Process) end() {
	p.alive.Close()
	_ = p.shell.Wait() // it returns an error after a kill
	p.alive = nil
}

// Remove ends the server, and returns when none of its processes and files is left.
func (p *Process) Remove() error {
	var err error
	if p.alive != nil {
		p.end()
	} else if p.Folder != "" {
		err = remove(p.Folder)
	}
	if p.lock != nil {
		err = errors.Join(err, p.lock.Close())
	}
	if p.reserved != nil {
		err = errors.Join(err, p.reserved.Close())
	}
	*p = Process{Program: p.Program}
	return err
}

// Send sends a signal to the server. After STOP it returns when the server is stopped.
func (p *Process) Send(signal string) error {
	pid, err := os.ReadFile(filepath.Join(p.Folder, "pid"))
	if err == nil && p.alive == nil {
		err = errors.New("the server does not run")
	}
	if err == nil {
		script := `kill -s "$1" "$2" && while [ "$1" = STOP ] && ps -o stat= -p "$2" | grep -q '^[^T]'; do sleep 0.01; done`
		err = exec.Command("sh", "-c", script, "sh", signal, strings.TrimSpace(string(pid))).Run()
	}
	if err != nil {
		return fmt.Errorf("signal %s to a server: %w", signal, err)
	}
	return nil
}

// Ports of servers are below those that the kernel gives to outgoing connections: no
// connection must take the port while the server is down. A node of a Redis Cluster also
// uses the port BusPort above its own.
const (
	firstPort = 10_000
	lastPort  = 20_000
	BusPort   = 10_000
)

// FreePort returns a port of 127.0.0.1 that no other test gets until the end of this one.
func FreePort(t testing.TB) int {
	t.Helper()
	port, reserved, err := ReservePort()
	if err != nil {
		t.Fatalf("serverproc: %v", err)
	}
	t.Cleanup(func() { reserved.Close() })
	return port
}

// ReservePort returns a port that no other test gets while reserved is open. reserved is
// the UDP port of the same number, which is released when this process ends.
func ReservePort() (port int, reserved io.Closer, err error) {
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		reserved, err := net.ListenPacket("udp", Loopback(port))
		if err != nil {
			continue
		}
		if isFree(port) && isFree(port+BusPort) {
			return port, reserved, nil
		}
		if err := reserved.Close(); err != nil {
			return 0, nil, err
		}
	}
	return 0, nil, errors.New("no port is free")
}

func isFree(port int) bool {
	l, err := net.Listen("tcp", Loopback(port))
	return err == nil && l.Close() == nil
}

// Loopback returns the address of a port of 127.0.0.1.
func Loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
