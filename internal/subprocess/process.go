package subprocess

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"
)

// Command is what to start. Name and Argv are required.
type Command struct {
	// Name is the child's name in errors.
	Name string
	// Argv is the program and its arguments. Send secrets by Send instead: every user of
	// the machine can read the arguments.
	Argv []string
	// Env is added to this process's environment, and overrides it.
	Env []string
	// Files become the child's descriptors from 3 on. They stay open here.
	Files []*os.File
}

// Process is a child that reports values of type T. It must be ended. Send must not be
// called concurrently with itself, and neither must Next and Listen with each other. The
// other methods are safe for concurrent use.
type Process[T any] struct {
	name     string
	cmd      *exec.Cmd
	in       io.WriteCloser
	out      *os.File
	orders   *json.Encoder
	reported chan T        // closed when the child reports no more
	stops    chan struct{} // has a value if the child has stopped
	ended    chan struct{} // closed when the child has ended
	status   string        // how the child ended
	errors   tail          // what the child wrote to its standard error
}

// Open starts the child, sends setup, and returns the first value that the child reports,
// which means that it is ready. If Open returns an error, no child is left.
func Open[T any](ctx context.Context, c Command, setup any) (*Process[T], T, error) {
	var first T
	p, err := Start[T](c)
	if err != nil {
		return nil, first, err
	}
	if first, err = p.Ask(ctx, setup); err != nil {
		p.Kill()
		p.End(ctx)
		return nil, first, err
	}
	return p, first, nil
}

// Start starts the child. It must be ended unless Start returns an error.
func Start[T any](c Command) (*Process[T], error) {
	p := &Process[T]{
		name: c.Name, cmd: exec.Command(c.Argv[0], c.Argv[1:]...),
		reported: make(chan T, 16), stops: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	p.cmd.SysProcAttr, p.cmd.WaitDelay = attributes(), stderrTimeout
	p.cmd.Env = append(append(os.Environ(), race()), c.Env...)
	p.cmd.ExtraFiles, p.cmd.Stderr = c.Files, &p.errors
	if err := p.start(); err != nil {
		return nil, fmt.Errorf("subprocess: %s: %w", p.name, err)
	}
	go p.listen()
	return p, nil
}

// start makes the pipes. It does not use StdoutPipe for the standard output: Wait would
// close that before all reports of a dead child were read.
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

// live starts the process and waits for its end on one thread: Linux sends the
// parent-death signal when this thread ends, even if the parent process goes on.
func (p *Process[T]) live(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err == nil {
		p.status = watch(p.cmd, p.stopped)
		_ = p.cmd.Wait() // watch has waited; this closes the pipes
		close(p.ended)
	}
}

func (p *Process[T]) listen() {
	defer close(p.reported)
	for dec := json.NewDecoder(p.out); ; {
		var value T
		if dec.Decode(&value) != nil {
			return // the end, or part of a line from a dying process
		}
		p.reported <- value
	}
}

// race prevents a child under the race detector from sleeping for a second before it
// exits. The user's settings come after it and override it.
func race() string { return "GORACE=atexit_sleep_ms=0 " + os.Getenv("GORACE") }

// Send writes message as a line of JSON to the child's standard input. If it returns an
// error, the child has ended.
func (p *Process[T]) Send(message any) error {
	if p.orders.Encode(message) != nil { // the child does not read any more
		p.Kill()
		return p.gone()
	}
	return nil
}

// Ask sends message, and returns the next value that the child reports. Its errors are
// those of Send and Next.
func (p *Process[T]) Ask(ctx context.Context, message any) (T, error) {
	if err := p.Send(message); err != nil {
		var nothing T
		return nothing, err
	}
	return p.Next(ctx)
}

// Next returns the next value that the child reports. If the child has ended, the error
// has its exit status. If ctx ends, the error is its cause.
func (p *Process[T]) Next(ctx context.Context) (T, error) {
	select {
	case value, more := <-p.reported:
		if !more {
			<-p.ended
			return value, p.gone()
		}
		return value, nil
	case <-ctx.Done():
		var nothing T
		return nothing, context.Cause(ctx)
	}
}

// Listen calls receive with each value until the child has ended. It returns nil if the
// exit status is 0.
func (p *Process[T]) Listen(receive func(T)) error {
	for value := range p.reported {
		receive(value)
	}
	if <-p.ended; p.status != exited {
		return p.gone()
	}
	return nil
}

// exited is the status of a child that ended without an error.
const exited = "exit status 0"

// CloseInput closes the child's standard input: see [Each] and [Parent.UntilClosed].
func (p *Process[T]) CloseInput() { p.in.Close() }

// Ended returns a channel that is closed when the child has ended.
func (p *Process[T]) Ended() <-chan struct{} { return p.ended }

func (p *Process[T]) gone() error {
	return fmt.Errorf("subprocess: %s is gone: %s: %s", p.name, p.status, p.errors.String())
}

const (
	// exitTimeout bounds the wait for an idle child to exit.
	exitTimeout = 2 * time.Minute
	// stderrTimeout bounds the reading of a dead child's standard error, which a process
	// that the child started may keep open.
	stderrTimeout = time.Second
)

// Kill ends the child with SIGKILL, even if it is stopped, and returns when it has ended.
// Next still returns what it had reported.
func (p *Process[T]) Kill() {
	select {
	case <-p.ended: // its process id may be in use again
	default:
		_ = p.cmd.Process.Kill() // the only error is that it has ended
		<-p.ended
	}
}

// End closes the child's standard input, at which an idle child exits. If the child has
// not exited after 2 min, or when ctx ends, End kills it. End returns when the child has
// ended, and discards reports that were not received.
func (p *Process[T]) End(ctx context.Context) {
	p.in.Close()
	timer := time.NewTimer(exitTimeout)
	defer timer.Stop()
	for waiting := true; waiting; {
		select {
		case _, waiting = <-p.reported: // otherwise a full pipe would block the child
		case <-timer.C:
			waiting = false
		case <-ctx.Done():
			waiting = false
		}
	}
	select {
	case <-p.ended:
	case <-timer.C:
	case <-ctx.Done():
	}
	p.Kill()
	p.out.Close() // another process may have the other end
	for range p.reported {
	}
}

const tailSize = 4096

// tail keeps the end of what is written to it. It is safe for concurrent use.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-tailSize):]
	return len(p), nil
}

// String returns the kept text on one line.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(strings.Fields(string(t.text)), " ")
}
