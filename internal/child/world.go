package child

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// World stops the Go program of a child, and not its process: a stop-the-world
// as a garbage collection makes them, but held open at will. The child writes a
// heap dump into a pipe, which the runtime does with the world stopped, and
// whose other end the parent reads when it is time. The pipe holds 4096 bytes,
// and the runtime's buffer as many, so that the dump cannot be over before.
// Linux.
//
//	parent                        child
//	NewWorld; Command.Files ───▶  StopWorld(3)
//	Hold
//	Stands                  ◀───  (the first bytes)
//	Drain                   ───▶  StopWorld returns
//	Hold, when it is known that StopWorld has returned
type World struct {
	pipe    *os.File // the end that this process has
	theirs  *os.File
	drained chan struct{} // closed when the Drain under way has ended
}

// least is what the pipe holds when a dump is to stand.
const least = 4096

// ErrNoWorld means that this system cannot hold a stop-the-world open.
var ErrNoWorld = errors.New("child: no stop-the-world on this system")

// NewWorld makes the pipe. It must be closed, after the child.
func NewWorld() (*World, error) {
	ours, theirs, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("child: %w", err)
	}
	if err := resize(theirs, least); err != nil {
		return nil, errors.Join(err, ours.Close(), theirs.Close())
	}
	return &World{pipe: ours, theirs: theirs}, nil
}

// File is for the Files of the child's [Command].
func (w *World) File() *os.File { return w.theirs }

// Stands returns when the child's world stands, of which the first bytes of the
// dump are the proof. An error is the cause of ctx's end.
func (w *World) Stands(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { _ = w.pipe.SetReadDeadline(time.Now()) })()
	_, err := w.pipe.Read(make([]byte, 1))
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// Drain lets the child's world go on: from now on everything is read, until the
// next Hold.
func (w *World) Drain() {
	_ = resize(w.pipe, 1<<20) // or it takes longer
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

// Hold ends a Drain, whose dump must be over, and empties the pipe: the next
// dump will stand.
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
