package cut_test

import (
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// The kinds of cuts. All except fin and rst leave the server's end open until release.
const (
	fin                  = "fin"                    // both ends are closed
	rst                  = "rst"                    // both ends are reset
	late                 = "late"                   // the client is reset; the rest of its data is held, and arrives at release
	leave                = "leave"                  // the same, but the client's end stays open: the caller leaves
	dropsReplies         = "drops replies"          // the client is reset; the server's replies are dropped, and the client's data arrives
	dropsRepliesSilently = "drops replies silently" // the same, but the client's end stays open: the caller leaves
)

const (
	up   = 0 // from the client to the server
	down = 1
)

// cut is the place where one connection breaks: after a number of bytes in one direction,
// counted from arm. It is the first connection with data after that. Later connections
// are not cut.
type cut struct {
	way  int
	at   int
	kind string

	owner  *link
	passed [2]int   // bytes that were read
	ends   [2][]int // where each read ended
	held   []byte
	made   bool
	struck chan struct{} // closed when the cut is made
}

// relay is a relay between clients and a server.
type relay struct {
	*testing.T
	listener net.Listener
	target   string
	running  sync.WaitGroup

	mu    sync.Mutex
	links map[*link]struct{}
	cut   *cut
	ports []int // the relay's own ports to the server, of links that have ended
}

type link struct {
	relay  *relay
	ends   [2]*net.TCPConn // of the client, of the server
	halved bool            // one direction has ended
}

func newRelay(t *testing.T, target string) *relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &relay{T: t, listener: listener, target: target, links: map[*link]struct{}{}}
	r.running.Go(r.accept)
	t.Cleanup(func() {
		listener.Close()
		r.release()
		r.mu.Lock()
		for l := range r.links {
			l.end(true, up, down)
		}
		r.mu.Unlock()
		r.running.Wait()
	})
	return r
}

func (r *relay) addr() string { return r.listener.Addr().String() }

func (r *relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", r.target)
		if err != nil {
			client.Close()
			continue
		}
		l := &link{relay: r, ends: [2]*net.TCPConn{client.(*net.TCPConn), server.(*net.TCPConn)}}
		r.mu.Lock()
		r.links[l] = struct{}{}
		r.mu.Unlock()
		for _, way := range []int{up, down} {
			r.running.Go(func() { l.forward(way) })
		}
	}
}

// forward forwards one direction until it ends.
func (l *link) forward(way int) {
	buffer := make([]byte, 1<<16)
	for {
		n, err := l.ends[way].Read(buffer)
		l.pass(way, buffer[:n])
		if err != nil {
			l.over(way)
			return
		}
	}
}

// pass holds the lock while it writes, so that held data comes after data that has
// passed. The data of these tests fits into the kernel's buffers.
func (l *link) pass(way int, data []byte) {
	l.relay.mu.Lock()
	defer l.relay.mu.Unlock()
	c := l.relay.cut
	if c == nil || len(data) == 0 || c.owner != nil && c.owner != l {
		_, _ = l.ends[1-way].Write(data) // an error ends the other direction
		return
	}
	c.owner = l
	before := c.passed[way]
	c.passed[way] += len(data)
	c.ends[way] = append(c.ends[way], c.passed[way])
	if way == c.way && c.passed[way] > c.at {
		keep := max(0, c.at-before)
		if way == up {
			c.held = append(c.held, data[keep:]...)
		}
		data = data[:keep]
	}
	_, _ = l.ends[1-way].Write(data)
	if full := c.passed[way] - c.at; way == c.way && !c.made && (full > 0 || full == 0 && c.atOnce()) {
		c.strike()
	}
}

func (c *cut) strike() {
	c.made = true
	switch c.kind {
	case fin, rst:
		c.owner.end(c.kind == rst, up, down)
	case late, dropsReplies:
		c.owner.end(true, up)
	}
	close(c.struck)
}

// atOnce reports whether the cut also ends the server's end, and does not wait for a byte
// that it holds.
func (c *cut) atOnce() bool { return c.kind == fin || c.kind == rst }

// over passes on the end of a direction. If the server's end is to stay open, the server
// receives the end only at release.
func (l *link) over(way int) {
	l.relay.mu.Lock()
	defer l.relay.mu.Unlock()
	if way == up {
		l.relay.ports = append(l.relay.ports, l.port())
	}
	if c := l.relay.cut; c != nil && c.made && c.owner == l && !c.atOnce() {
		return
	}
	_ = l.ends[1-way].CloseWrite()
	if l.halved {
		l.end(false, up, down)
		delete(l.relay.links, l)
	}
	l.halved = true
}

// end closes the client's end (up), the server's end (down), or both.
func (l *link) end(reset bool, ends ...int) {
	for _, e := range ends {
		if reset {
			_ = l.ends[e].SetLinger(0)
		}
		_ = l.ends[e].Close()
	}
}

func (l *link) port() int { return l.ends[down].LocalAddr().(*net.TCPAddr).Port }

// arm makes c the next cut. A cut after zero bytes is made at once, on the idle
// connections.
func (r *relay) arm(c *cut) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.struck = make(chan struct{})
	r.cut, r.ports = c, nil
	for l := range r.links {
		if c.way == up && c.at == 0 && c.atOnce() && !l.halved {
			l.end(c.kind == rst, up, down)
			c.made = true
		}
	}
	if c.made {
		close(c.struck)
		r.cut = nil
	}
}

// idle reports whether there is no connection.
func (r *relay) idle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.links) == 0
}

// drop resets the client's end of the cut connection.
func (r *relay) drop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut.owner.end(true, up)
}

// release delivers held data, ends the cut connection, and returns the ports of all
// connections that have ended since arm.
func (r *relay) release() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.cut
	r.cut = nil
	if c == nil || !c.made {
		return r.ports
	}
	c.owner.end(true, up)
	if !c.atOnce() {
		_, _ = c.owner.ends[down].Write(c.held)
	}
	c.owner.end(false, down)
	delete(r.links, c.owner)
	return append(r.ports, c.owner.port())
}

// over returns whether gone is true for the ports of all connections that have ended
// since the last time that it was.
func (r *relay) over(gone func(ports []int) bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !gone(r.ports) {
		return false
	}
	r.ports = nil
	return true
}
