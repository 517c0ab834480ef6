package simulations

import (
	"context"
	"sync"
	"time"

	"github.com/fencepost/fencepost/internal/failpoint"
)

// breakpoint stops a writer at some of its steps. Each goroutine of the writer calls pass
// at each step. The director of the interleaving releases the stopped goroutines one at a
// time.
type breakpoint struct {
	parked   chan string   // the step at which a goroutine is stopped
	resume   chan struct{} // releases one goroutine
	disabled chan struct{} // closed by disable

	mu    sync.Mutex
	steps []string
	stop  func(n int, step string) bool // at step n, from 0
	isOff bool
}

func newBreakpoint(stop func(n int, step string) bool) *breakpoint {
	return &breakpoint{
		parked: make(chan string), resume: make(chan struct{}), disabled: make(chan struct{}),
		stop: stop,
	}
}

// pass blocks until the director lets the writer continue with step.
func (b *breakpoint) pass(step string) {
	b.mu.Lock()
	stop := !b.isOff && b.stop(len(b.steps), step)
	b.steps = append(b.steps, step)
	b.mu.Unlock()
	if stop {
		b.park(step)
	}
}

// wait stops a writer that is stopped at every step, at a point where it waits for the
// lock. It reports whether it did. It does not count as a step.
func (b *breakpoint) wait(step string) bool {
	b.mu.Lock()
	stop := !b.isOff && b.stop(-1, step)
	b.mu.Unlock()
	if stop {
		b.park(step)
	}
	return stop
}

func (b *breakpoint) park(step string) {
	select {
	case b.parked <- step:
	case <-b.disabled:
		return
	}
	select {
	case <-b.resume:
	case <-b.disabled:
	}
}

// resumeOne releases one stopped goroutine. It returns at once if the breakpoint has been
// disabled, which has released them all.
func (b *breakpoint) resumeOne() {
	select {
	case b.resume <- struct{}{}:
	case <-b.disabled:
	}
}

// until sets where the writer stops next.
func (b *breakpoint) until(stop func(n int, step string) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stop = stop
}

// disable releases all stopped goroutines, and stops no more.
func (b *breakpoint) disable() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.isOff {
		b.isOff = true
		close(b.disabled)
	}
}

// isDisabled reports whether the writer stops no more.
func (b *breakpoint) isDisabled() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.isOff
}

func (b *breakpoint) seen() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.steps...)
}

// Conditions for stopping a writer.
func nowhere(int, string) bool    { return false }
func everywhere(int, string) bool { return true }

func atStep(at int) func(int, string) bool {
	return func(n int, _ string) bool { return n == at }
}

func atName(name string) func(int, string) bool {
	return func(_ int, step string) bool { return step == name }
}

// state is the result of waiting for a writer.
type state int

const (
	parked  state = iota // stopped at a step
	ended                // its Hold has returned
	queued               // waiting for the lock, which another writer has
	waiting              // waiting for something else of another writer, or slow
)

// await waits until w is stopped at a step, has ended, or waits for a lock that another
// writer has. It returns waiting after bound.
func (w *writer) await(bound time.Duration) state {
	select {
	case <-w.parked:
		return parked
	case <-w.done:
		return ended
	case <-w.held:
		return queued
	case <-time.After(bound):
		return waiting
	}
}

// wake resumes w, which is parked, until it is stopped again.
func (w *writer) wake(stop func(int, string) bool) {
	w.until(stop)
	w.asleep.Store(false)
	select {
	case <-w.held: // from an earlier wait
	default:
	}
	w.resumeOne()
}

// over reports whether w's Hold has returned.
func (w *writer) over() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// Failpoint marks a point in a Subject's code at which Run can stop a writer, in addition
// to the steps that guards and drivers report: for example, between a read and a write in
// memory. Outside of a simulation it costs a context lookup.
func Failpoint(ctx context.Context, name string) { failpoint.At(ctx, failpoint.Step(name), nil) }
