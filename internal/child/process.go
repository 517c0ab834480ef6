package child

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
)

// Command says what to start. Name and Argv are required.
type Command struct {
	// Name is what errors call the child.
	Name string
	// Argv is the program and its arguments. Secrets go by Send instead:
	// anybody can read those.
	Argv []string
	// Env comes on top of this process's own environment, which may set the
	// same names.
	Env []string
	// Files are the child's from file descriptor 3 on. They stay open here.
	Files []*os.File
}

// Process is a child that says values of type T. It must be ended. Send is for
// one goroutine at a time, Next for another; the rest is safe for concurrent
// use.
type Process[T any] struct {
	name   string
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *os.File
	orders *json.Encoder
	said   chan T        // closed when the child says no more
	stops  chan struct{} // it has been seen to stand
	ended  chan struct{} // closed when it is gone
	status string        // how it went, once it is gone
	errors tail          // what it wrote to its standard error
}

// Start starts the child, which must be ended unless there is an error.
func Start[T any](c Command) (*Process[T], error) {
	p := &Process[T]{
		name: c.Name, cmd: exec.Command(c.Argv[0], c.Argv[1:]...),
		said: make(chan T, 16), stops: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	p.cmd.SysProcAttr, p.cmd.WaitDelay = attributes(), lastWords
	p.cmd.Env = append(append(os.Environ(), race()), c.Env...)
	p.cmd.ExtraFiles, p.cmd.Stderr = c.Files, &p.errors
	if err := p.start(); err != nil {
		return nil, fmt.Errorf("child: %s: %w", p.name, err)
	}
	go p.listen()
	return p, nil
}

// start makes the pipes. That of the standard output is no StdoutPipe: Wait
// would close it on what a dead child had said.
func (p *Process[T]) start() (err error) {
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	out, theirs, err := os.Pipe()
	if err != nil {
		p.in.Close()
		return err
	}
	defer theirs.Close()
	p.out, p.orders, p.cmd.Stdout = out, json.NewEncoder(p.in), theirs
	started := make(chan error)
	go p.live(started)
	if err := <-started; err != nil {
		out.Close()
		return err
	}
	return nil
}

// live starts the process and stays with it to its end, on one thread: it is
// the death of this thread, not of the whole parent, that Linux tells a child.
func (p *Process[T]) live(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err == nil {
		p.status = watch(p.cmd, p.stopped)
		_ = p.cmd.Wait() // watch has done that; here it closes the pipes
		close(p.ended)
	}
}

func (p *Process[T]) listen() {
	defer close(p.said)
	for dec := json.NewDecoder(p.out); ; {
		var said T
		if dec.Decode(&said) != nil {
			return // its end, or what a dying process left of a line
		}
		p.said <- said
	}
}
