package netfault

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Proxy passes data between clients and a server. It is safe for concurrent use.
type Proxy struct {
	listener *net.TCPListener
	target   string
	running  sync.WaitGroup

	toServer, toClient gate

	mu    sync.Mutex
	cut   Way
	over  bool
	links map[*link]struct{}
}

// Start returns a proxy to the TCP address of a server ("host:port"), on a free port of
// 127.0.0.1. It connects to the server when a client connects. If that fails, the client
// is reset. The proxy must be closed.
func Start(target string) (*Proxy, error) {
	if _, _, err := net.SplitHostPort(target); err != nil {
		return nil, err
	}
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: listener, target: target, links: map[*link]struct{}{}}
	p.running.Go(p.accept)
	return p, nil
}

// Addr returns the address for clients: "127.0.0.1:port".
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Close resets every connection, and returns when all goroutines of the proxy have ended.
// Further calls do nothing.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.over = true
	for l := range p.links {
		l.cutOff(Both)
	}
	p.mu.Unlock()
	_ = p.listener.Close()
	p.running.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(time.Millisecond) // no file descriptors left, for example
			continue
		}
		p.running.Go(func() { p.serve(client) })
	}
}

func (p *Proxy) serve(client *net.TCPConn) {
	l := newLink(client, &p.toServer, &p.toClient)
	defer p.leave(l)
	if p.enter(l) && l.there.gate.pass(l.ctx) && l.connect(p.target) {
		l.run()
		return
	}
	l.cutOff(Both)
}

func (p *Proxy) leave(l *link) {
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
	l.close()
}

func (p *Proxy) enter(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over || p.cut != 0 {
		return false
	}
	p.links[l] = struct{}{}
	return true
}

// link is a connection from a client through the proxy to the server.
type link struct {
	client      *net.TCPConn
	ctx         context.Context // ends with the link
	end         context.CancelFunc
	there, back *flow // to the server, to the client

	mu     sync.Mutex
	server *net.TCPConn // nil until it is connected
	halved Way          // the directions whose receiver was cut off; only that receiver was reset
}

func newLink(client *net.TCPConn, toServer, toClient *gate) *link {
	l := &link{client: client, there: newFlow(toServer, toClient), back: newFlow(toClient, toServer)}
	l.ctx, l.end = context.WithCancel(context.Background())
	return l
}

// connect reports whether the server was reached before the link ended.
func (l *link) connect(target string) bool {
	conn, err := new(net.Dialer).DialContext(l.ctx, "tcp", target)
	if err != nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.server = conn.(*net.TCPConn)
	l.there.from, l.there.to = l.client, l.server
	l.back.from, l.back.to = l.server, l.client
	if l.ctx.Err() != nil {
		l.reset() // cut in the meantime
		return false
	}
	return true
}

// run passes data on until both directions have ended.
func (l *link) run() {
	var running sync.WaitGroup
	for _, f := range []*flow{l.there, l.back} {
		running.Go(func() { f.read(l.ctx) })
		running.Go(func() { f.write(l.ctx, l.gone) })
	}
	running.Wait()
}

const (
	chunkSize = 32 << 10
	chunks    = 16 // that a flow holds before it stops reading
)

// chunk is the result of one read: data, and the end or error if there was one.
type chunk struct {
	data []byte
	end  error
}

// flow is one direction of a link. Data waits in a queue, and not in the reading
// goroutine, so that more of it can be on its way.
type flow struct {
	from, to *net.TCPConn
	gate     *gate
	opposite *gate // the gate that the close of the receiver has to pass
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
			return // the proxy closed it: neither end has
		}
		f.held.Add(int64(n))
		select {
		case f.queue <- chunk{data: bytes.Clone(buffer[:n]), end: err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// write passes data on until there is no more or the link has ended. If one end has
// closed the connection, it calls gone as soon as the other end can receive that: when
// the direction from the closed end is open.
func (f *flow) write(ctx context.Context, gone func()) {
	for c := range f.queue {
		if !f.gate.pass(ctx) {
			return
		}
		// Before the write: after it the receiver may act on the data, and Held
		// must not count that data any more.
		f.held.Add(-int64(len(c.data)))
		_, err := f.to.Write(c.data)
		switch {
		case c.end != nil && !errors.Is(c.end, io.EOF):
			gone() // the sender, by a reset
		case err != nil:
			if f.opposite.pass(ctx) {
				gone() // the receiver
			}
		case c.end != nil:
			_ = f.to.CloseWrite() // an error means that the receiver has left too
		}
	}
}
