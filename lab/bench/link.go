package main

import (
	"context"
	"net"
	"sync/atomic"
)

// route is the route from a client to its server.
type route int

const (
	direct route = iota
	linked       // through a relay, see package slowlink
)

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
