package subprocess

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// World stops the Go program of a child without stopping its process: a stop-the-world as
// in a garbage collection, held open at will. The child writes a heap dump into a pipe,
// which the runtime does while the world is stopped. The parent reads the other end when
// the world may continue. The pipe holds 4096 bytes, and the runtime's buffer as many, so
// the dump cannot complete before that. Linux only.
//
//	parent                        child
//	NewWorld; Command.Files ───▶  StopWorld(3)
//	Hold
//	Stands                  ◀───  (the first bytes)
//	Drain                   ───▶  StopWorld returns
//	Hold, after StopWorld has returned
type World struct {
	pipe    *os.File // this process's end
	theirs  *os.File
	drained chan struct{} // closed when the current Drain has ended
}

// least is the capacity of the pipe while the world is to stop.
const least = 4096

// ErrNoWorld means that this system cannot hold a stop-the-world open.
var ErrNoWorld = errors.New("subprocess: no stop-the-world on this system")

// NewWorld makes the pipe. It must be closed after the child has ended.
func NewWorld() (*World, error) {
	ours, theirs, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("subprocess: %w", err)
	}
	if err := resize(theirs, least); err != nil {
		return nil, errors.Join(err, ours.Close(), theirs.Close())
	}
	return &World{pipe: ours, theirs: theirs}, nil
}

// File returns the child's end of the pipe, for the Files of its [Command].
func (w *World) File() *os.File { return w.theirs }

// Stands returns nil when the child's world has stopped: the first bytes of the dump have
// arrived. Its error is the cause of ctx's end.
func (w *World) Stands(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { _ = w.pipe.SetReadDeadline(time.Now()) })()
	_, err := w.pipe.Read(make([]byte, 1))
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// Drain lets the child's world continue: it reads all data from the pipe until the next
// Hold.
func (w *World) Drain() {
	_ = resize(w.pipe, 1<<20) // faster with a large pipe
	w.drained = make(chan struct{})
	go func(drained chan<- struct{}) {
		defer close(drained)
		buffer := make([]byte, 1<<18)
		for {
			if _, err := w.pipe.Read(buffer); err != nil {
				return // Hold or Close
			}
		}
	}(w.drained)
}

// Hold ends a Drain, whose dump must be complete, and empties the pipe, so that the next
// dump stops the world.
func (w *World) Hold() error {
	if w.drained != nil {
		_ = w.pipe.SetReadDeadline(time.Now())
		<-w.drained
		w.drained = nil
	}
	_ = w.pipe.SetReadDeadline(time.Time{})
	return errors.Join(empty(w.pipe), resize(w.pipe, least))
}

// Close closes the pipe.
func (w *World) Close() error {
	err := w.pipe.Close()
	if w.drained != nil {
		<-w.drained
	}
	return errors.Join(err, w.theirs.Close())
}
