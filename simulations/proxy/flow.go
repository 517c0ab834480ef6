package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"
)

const (
	chunkSize = 32 << 10
	chunks    = 16 // that a flow holds before it stops reading
)

// chunk is what was read at once, and how the reading ended, if it did.
type chunk struct {
	at   time.Time
	data []byte
	end  error
}

// flow is one way of a link. What it reads waits in a queue and not at the gate,
// so that a delay does not add up.
type flow struct {
	from, to *net.TCPConn
	gate     *gate
	opposite *gate // by which the sender hears that the receiver has left
	queue    chan chunk
	held     atomic.Int64 // bytes
}

func newFlow(gate, opposite *gate) *flow {
	return &flow{gate: gate, opposite: opposite, queue: make(chan chunk, chunks)}
}

func (f *flow) read(ctx context.Context) {
	defer close(f.queue)
	buffer := make([]byte, chunkSize)
	for {
		n, err := f.from.Read(buffer)
		if errors.Is(err, net.ErrClosed) {
			return // by this proxy: nobody has ended the connection
		}
		f.held.Add(int64(n))
		select {
		case f.queue <- chunk{at: time.Now(), data: bytes.Clone(buffer[:n]), end: err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// write passes on what was read, until there is no more of it or the link is
// over. It calls gone where an end has left the other alone: as soon as the
// other can hear of it, which is by the way of the one who has left.
func (f *flow) write(ctx context.Context, gone func()) {
	for c := range f.queue {
		if !f.gate.pass(ctx, c.at) {
			return
		}
		// Before the receiver can have it, and act on it: who asks then what is
		// held must not be told of this.
		f.held.Add(-int64(len(c.data)))
		_, err := f.to.Write(c.data)
		switch {
		case c.end != nil && !errors.Is(c.end, io.EOF):
			gone() // the sender, by a reset
		case err != nil:
			if f.opposite.pass(ctx, time.Now()) {
				gone() // the receiver
			}
		case c.end != nil:
			_ = f.to.CloseWrite() // an error says that the receiver has left too
		}
	}
}
