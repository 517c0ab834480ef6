package simulate

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"time"
)

// process is a writer's process, as the parent has it.
type process struct {
	name   string
	pause  Pause
	cmd    *exec.Cmd
	in     io.WriteCloser
	orders *json.Encoder
	events chan Event    // closed when the process says no more
	stops  chan struct{} // it has been seen to stand
	ended  chan struct{} // closed when it is gone
	status string        // how it went, once it is gone
	said   tail          // on its standard error
}

// startProcess starts argv as a writer, which must be ended unless there is an
// error.
func startProcess(argv []string, s setup) (*process, error) {
	p := &process{
		name: s.Name, pause: s.Pause, cmd: exec.Command(argv[0], argv[1:]...),
		events: make(chan Event, 16), stops: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	p.cmd.SysProcAttr = attributes()
	p.cmd.Stderr = &p.said
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("simulate: writer %s: %w", p.name, err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("simulate: writer %s: %w", p.name, err)
	}
	p.in, p.orders = in, json.NewEncoder(in)
	started := make(chan error)
	go p.live(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("simulate: writer %s: %w", p.name, err)
	}
	go p.listen(out)
	return p, p.send(s)
}

// live starts the process and stays with it to its end, on one thread: it is
// the death of this thread, not of the whole parent, that Linux tells a child.
func (p *process) live(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err == nil {
		p.status = p.watch()
		_ = p.cmd.Wait() // watch has done that; here it closes the pipes
		close(p.ended)
	}
}

func (p *process) listen(out io.Reader) {
	defer close(p.events)
	for dec := json.NewDecoder(out); ; {
		var e Event
		if dec.Decode(&e) != nil {
			return // its end, or what a dying process left of a line
		}
		p.events <- e
	}
}

// send gives the process its setup, an order, or wakes it. After an error it is
// gone.
func (p *process) send(message any) error {
	if p.orders.Encode(message) != nil { // nobody reads any more
		p.kill()
		return p.gone()
	}
	return nil
}

// next returns the next event.
func (p *process) next(ctx context.Context) (Event, error) {
	select {
	case e, more := <-p.events:
		if !more {
			<-p.ended
			return e, p.gone()
		}
		return e, nil
	case <-ctx.Done():
		return Event{}, context.Cause(ctx)
	}
}

func (p *process) gone() error {
	return fmt.Errorf("simulate: writer %s is gone: %s: %s", p.name, p.status, p.said.String())
}

// end lets an idle process finish. One that has not for a while, or that ctx
// does not wait for, is killed, stopped or not. It returns when it is gone.
func (p *process) end(ctx context.Context) {
	p.in.Close()
	timer := time.NewTimer(farewell)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
	case <-ctx.Done():
	}
	p.kill()
}

func (p *process) kill() {
	select {
	case <-p.ended: // its id may be somebody else's by now
	default:
		_ = p.cmd.Process.Kill() // its only error is that it is gone
		<-p.ended
	}
	for range p.events {
	}
}
