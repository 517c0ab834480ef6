package proxy

import "time"

// Way is a direction through a proxy.
type Way uint8

// The ways.
const (
	ToServer Way = 1 << iota // what the client sends
	ToClient                 // what the server sends
	Both     = ToServer | ToClient
)

// Cut resets connections, now and until the way heals. Both resets either end,
// and what was on its way is lost. With ToClient the client alone is told: what
// it had sent before, as far as the proxy has read it, still arrives, and the
// server's answers go nowhere. ToServer is the same the other way round. That
// leaves half-open connections (RFC 9293 §3.5.1); the end that knows nothing is
// reset when the way heals. New connections are accepted and reset at once,
// whichever way is cut.
func (p *Proxy) Cut(way Way) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut |= way
	for l := range p.links {
		l.cutOff(way)
	}
}

// Blackhole lets nothing pass any more, neither bytes nor the end of a
// connection, until the way heals: then all of it arrives. New connections are
// accepted and mute; the server hears of them when the way to it heals.
//
// A way holds half a megabyte for each connection, besides what the kernel
// holds. Then its sender is stopped.
func (p *Proxy) Blackhole(way Way) { p.each(way, func(g *gate) { g.shut = true }) }

// Delay makes everything arrive d later than it was sent. It takes the place of
// an earlier Delay, for what is on its way as well; zero or less is none.
func (p *Proxy) Delay(way Way, d time.Duration) { p.each(way, func(g *gate) { g.delay = d }) }

// Heal ends all faults of the way.
func (p *Proxy) Heal(way Way) {
	p.mu.Lock()
	p.cut &^= way
	for l := range p.links {
		l.mend(way)
	}
	p.mu.Unlock()
	p.each(way, func(g *gate) { g.shut, g.delay = false, 0 })
}

// Held is how many bytes the proxy has read and not passed on, over all
// connections: what a Blackhole or a Delay holds. What it has passed on is on its
// way to the receiver, who may not have read it yet. With it a test waits until the
// packet that is to come late is on its way.
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
		p.toServer.set(change)
	}
	if way&ToClient != 0 {
		p.toClient.set(change)
	}
}
