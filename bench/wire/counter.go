package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
)

// Counter counts what its connections send. The zero Counter is ready.
type Counter struct {
	packets, commands atomic.Int64
}

// Packets is how often a client has written to a connection: what it writes at
// once leaves in one packet, or in several full ones.
func (c *Counter) Packets() int64 { return c.packets.Load() }

// Commands is how many commands were sent, as Redis' protocol has them: what a
// script calls is none.
func (c *Counter) Commands() int64 { return c.commands.Load() }

// Dial opens a connection that is counted.
func (c *Counter) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var dialer net.Dialer
	inner, err := dialer.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	tcp, ok := inner.(*net.TCPConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("wire: %s is not TCP", network), inner.Close())
	}
	return &conn{TCPConn: tcp, counter: c}, nil
}

// conn is written to by one goroutine at a time, as all clients do. It is TCP, for
// clients that look beneath it whether the server has hung up.
type conn struct {
	*net.TCPConn
	counter *Counter
	scanner scanner
}

func (c *conn) Write(p []byte) (int, error) {
	c.counter.packets.Add(1)
	c.counter.commands.Add(c.scanner.scan(p))
	return c.TCPConn.Write(p)
}
