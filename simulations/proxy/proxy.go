package proxy

import (
	"errors"
	"net"
	"sync"
	"time"
)

// Proxy passes on what clients and a server send each other. It is safe for
// concurrent use.
type Proxy struct {
	listener *net.TCPListener
	target   string
	running  sync.WaitGroup

	toServer, toClient *gate

	mu    sync.Mutex
	cut   Way
	over  bool
	links map[*link]struct{}
}

// Start returns a proxy to the TCP address of a server ("host:port"), on a free
// port of 127.0.0.1. The server is asked for when a client comes; where it does
// not answer, the client is reset. The proxy must be closed.
func Start(target string) (*Proxy, error) {
	if _, _, err := net.SplitHostPort(target); err != nil {
		return nil, err
	}
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		listener: listener, target: target, links: map[*link]struct{}{},
		toServer: newGate(), toClient: newGate(),
	}
	p.running.Go(p.accept)
	return p, nil
}

// Addr is where clients connect to: "127.0.0.1:port".
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Close resets every connection, and returns when nothing of the proxy runs any
// more. Further calls do nothing.
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
			time.Sleep(time.Millisecond) // no file descriptors left, say
			continue
		}
		p.running.Go(func() { p.serve(client) })
	}
}

func (p *Proxy) serve(client *net.TCPConn) {
	l := newLink(client, p.toServer, p.toClient)
	defer p.leave(l)
	if p.enter(l) && l.there.gate.pass(l.ctx, time.Now()) && l.connect(p.target) {
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
