package netfault

import (
	"context"
	"net"
	"sync"
)

// Way is a direction through a proxy.
type Way uint8

// The directions.
const (
	ToServer Way = 1 << iota // what the client sends
	ToClient                 // what the server sends
	Both     = ToServer | ToClient
)

// Cut resets connections, now and until the direction heals. With both directions both
// ends get the reset, and data under way is lost. With ToClient only the client gets it:
// data that the proxy has already read from the client still arrives, and the server's
// answers are discarded. ToServer is the reverse. That leaves half-open connections (RFC
// 9293 §3.5.1); their other end is reset when the direction heals. New connections are
// accepted and reset at once, whichever direction is cut.
func (p *Proxy) Cut(way Way) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut |= way
	for l := range p.links {
		l.cutOff(way)
	}
}

// Reset resets the connections that are open. Both ends get the reset, and data under way
// is lost. Later connections are not reset.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.cutOff(Both)
	}
}

// Blackhole holds back all bytes and ends of connections until the direction heals. Then
// all of them arrive. New connections are accepted and silent, and reach the server when
// the direction to it heals.
//
// A direction holds half a megabyte for each connection, besides the kernel's buffers.
// Then its sender blocks.
func (p *Proxy) Blackhole(way Way) { p.each(way, (*gate).shut) }

// Heal ends all faults of the direction.
func (p *Proxy) Heal(way Way) {
	p.mu.Lock()
	p.cut &^= way
	for l := range p.links {
		l.mend(way)
	}
	p.mu.Unlock()
	p.each(way, (*gate).open)
}

// Held returns how many bytes the proxy has read and not passed on, over all connections:
// the data held by a Blackhole. With it a test waits until the packet that is to come late
// is on its way. Bytes that were passed on may not have been read by the
// receiver yet.
func (p *Proxy) Held(way Way) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	var held int64
	for l := range p.links {
		if way&ToServer != 0 {
			held += l.there.held.Load()
		}
		if way&ToClient != 0 {
			held += l.back.held.Load()
		}
	}
	return int(held)
}

func (p *Proxy) each(way Way, change func(*gate)) {
	if way&ToServer != 0 {
		change(&p.toServer)
	}
	if way&ToClient != 0 {
		change(&p.toClient)
	}
}

// gate is what all data of one direction has to pass. Its zero value is open.
type gate struct {
	mu     sync.Mutex
	opened chan struct{} // closed when the gate opens; nil while it is open
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened == nil {
		g.opened = make(chan struct{})
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened != nil {
		close(g.opened)
		g.opened = nil
	}
}

// pass waits until the gate is open. It returns false if ctx ends first.
func (g *gate) pass(ctx context.Context) bool {
	for ctx.Err() == nil {
		g.mu.Lock()
		opened := g.opened
		g.mu.Unlock()
		if opened == nil {
			return true
		}
		select {
		case <-opened: // and perhaps shut again
		case <-ctx.Done():
		}
	}
	return false
}

// gone ends the link after one end has closed it: the other end gets a reset. If an end
// was cut off, gone does nothing: data for that end is lost, and neither end gets a
// reset.
func (l *link) gone() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.halved == 0 {
		l.reset()
	}
}

func (l *link) cutOff(way Way) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.halved |= way; l.halved == Both || l.server == nil {
		l.reset()
		return
	}
	if way == ToClient {
		drop(l.client)
	} else {
		drop(l.server)
	}
}

func (l *link) mend(way Way) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.halved&way != 0 {
		l.reset()
	}
}

// close closes both ends with a FIN, so data that was written last still arrives.
func (l *link) close() {
	l.end()
	_ = l.client.Close() // an error means that it is closed already
	if l.server != nil {
		_ = l.server.Close()
	}
}

func (l *link) reset() {
	l.end()
	drop(l.client)
	if l.server != nil {
		drop(l.server)
	}
}

// drop makes the kernel send a reset instead of a FIN.
func drop(conn *net.TCPConn) {
	_ = conn.SetLinger(0) // an error means that it is closed already
	_ = conn.Close()
}
