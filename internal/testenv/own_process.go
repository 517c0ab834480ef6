package testenv

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

//go:embed own.sh
var ownScript string

// own is a server process that one test has for itself: it may be killed, as a
// power cut does it, and started again on the same folder and port. It is gone
// at the end of the test, and soon after that of this process. Its methods are
// for the test's goroutine.
type own struct {
	t       testing.TB
	program program
	alive   *os.File // nil where it does not run
	shell   *exec.Cmd

	port     int
	reserved io.Closer // for as long as the port is its own
	folder   string
}

// startOwn starts the program on a free port, in an empty folder. Where err is
// not nil, it says why there is no program.
func startOwn(t testing.TB, p program, err error) *own {
	t.Helper()
	o := &own{t: t, program: p}
	t.Cleanup(o.remove)
	if err == nil {
		err = o.start()
	}
	if err != nil {
		t.Fatalf("testenv: this test starts a server of its own: %v\n"+
			"run `make setup`, which installs it where it can", err)
	}
	return o
}

// start tries again, since the port may be taken by the time the server has it.
func (o *own) start() (err error) {
	for range 5 {
		if o.port, o.reserved, err = ownPort(); err != nil {
			return err
		}
		if o.folder, err = os.MkdirTemp("", "fencepost-testenv-"); err != nil {
			return err
		}
		if err = o.launch(); err == nil {
			return nil
		}
		o.remove()
	}
	return err
}

// launch returns when the server is ready.
func (o *own) launch() error {
	attr, err := serverAttr(o.folder)
	if err != nil {
		return err
	}
	read, alive, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	argv := append([]string{"-c", ownScript, "sh", o.folder}, o.program.argv(o.folder, o.port)...)
	o.shell = exec.Command("sh", argv...)
	o.shell.Stdin, o.shell.Dir, o.shell.SysProcAttr = read, o.folder, attr
	o.shell.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	// What the last run said is not this one's word.
	for _, left := range []string{"log", "ended", "pid"} {
		if err := os.RemoveAll(filepath.Join(o.folder, left)); err != nil {
			return errors.Join(err, alive.Close())
		}
	}
	if err := o.shell.Start(); err != nil {
		return errors.Join(err, alive.Close())
	}
	o.alive = alive
	return o.program.await(o.folder)
}

// kill returns when no process of the server is left. What it wrote stays.
func (o *own) kill() {
	if o.alive == nil {
		return
	}
	fmt.Fprintln(o.alive, "keep")
	o.alive.Close()
	_ = o.shell.Wait() // it is told of a kill
	o.alive = nil
}

func (o *own) restart() {
	o.t.Helper()
	o.kill()
	if err := o.launch(); err != nil {
		o.t.Fatalf("testenv: restart: %v", err)
	}
}

func (o *own) remove() {
	o.kill()
	err := os.RemoveAll(o.folder)
	if o.reserved != nil {
		err = errors.Join(err, o.reserved.Close())
	}
	o.folder, o.reserved = "", nil
	if err != nil {
		o.t.Errorf("testenv: %v", err)
	}
}

// signal returns when a server that is to stand does.
func (o *own) signal(name string) {
	o.t.Helper()
	pid, err := os.ReadFile(filepath.Join(o.folder, "pid"))
	if err == nil && o.alive == nil {
		err = errors.New("it does not run")
	}
	if err == nil {
		script := `kill -s "$1" "$2" && while [ "$1" = STOP ] && ps -o stat= -p "$2" | grep -q '^[^T]'; do sleep 0.01; done`
		err = exec.Command("sh", "-c", script, "sh", name, strings.TrimSpace(string(pid))).Run()
	}
	if err != nil {
		o.t.Fatalf("testenv: signal %s to a server: %v", name, err)
	}
}
