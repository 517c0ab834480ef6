package main

import (
	"context"
	"net"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/fencepost/fencepost/internal/subprocess"
)

// route is the route from a client to its server.
type route int

const (
	direct route = iota
	linked       // through the relay
)

// The link is a relay that holds each chunk for half of the round trip, in both
// directions. It is a process of its own: a thread that sleeps in the kernel occupies one
// of a Go program's processors for a while, which the measured program must not lose.
const (
	oneWay = 125 * time.Microsecond

	// relayRole is the role of a process that is a relay. It receives its server's
	// address, and reports its own address.
	relayRole = "relay"
	// relayProcessors is large enough that sleeping threads do not delay others.
	relayProcessors = 16
)

// startRelay returns the address of a new relay to target, and a function that ends it.
func startRelay(target string) (addr string, end func() error) {
	self := must(subprocess.Self("the relay to "+target, relayRole))
	p, addr, err := subprocess.Open[string](context.Background(), self, target)
	check(err)
	return addr, func() error { p.End(context.Background()); return nil }
}

// relayIfAsked runs a process that is a relay. It ends when its parent closes the input
// or ends.
func relayIfAsked() {
	subprocess.Serve(map[string]func(*subprocess.Parent) error{relayRole: func(parent *subprocess.Parent) error {
		runtime.GOMAXPROCS(relayProcessors)
		var target string
		if err := parent.Receive(&target); err != nil {
			return err
		}
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		go relay(listener, target)
		parent.Report(listener.Addr().String())
		return subprocess.Each(parent, func(string) error { return nil })
	}})
}

func relay(listener net.Listener, target string) {
	for {
		near, err := listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", target)
		if err != nil {
			_ = near.Close() // the client sees the end of its connection
			continue
		}
		go carry(near, far)
		go carry(far, near)
	}
}

// chunk is the result of one read.
type chunk struct {
	bytes []byte
	due   time.Time
}

// carry writes to dst what it reads from src, each chunk when it is due, and closes dst
// when src has ended.
func carry(dst, src net.Conn) {
	chunks := make(chan chunk, 1024)
	defer close(chunks)
	go deliver(dst, chunks)
	buffer := make([]byte, 64<<10)
	for {
		n, err := src.Read(buffer)
		if err != nil {
			return
		}
		chunks <- chunk{append([]byte(nil), buffer[:n]...), time.Now().Add(oneWay)}
	}
}

// deliver has a thread of its own, whose sleep is precise: Go's timers have a resolution
// of a millisecond in an idle process.
func deliver(dst net.Conn, chunks <-chan chunk) {
	runtime.LockOSThread() // never unlocked: the thread ends, and its slack with it
	preciseSleep()
	defer dst.Close()
	for c := range chunks {
		if ahead := time.Until(c.due); ahead > 0 {
			sleep(ahead)
		}
		_, _ = dst.Write(c.bytes) // after an error src ends too
	}
}

// countedConn embeds a TCPConn for clients that check the socket for a closed server.
type countedConn struct {
	*net.TCPConn
	sent *atomic.Int64
}

func (c *countedConn) Write(p []byte) (int, error) {
	c.sent.Add(1)
	return c.TCPConn.Write(p)
}

// dial opens a connection whose packets are counted.
func (c *client) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &countedConn{conn.(*net.TCPConn), &c.sent}, nil
}
