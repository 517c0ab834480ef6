package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
)

// counter counts what its connections send. The zero counter is ready for use.
type counter struct {
	packets  atomic.Int64 // writes to a connection: each leaves as one packet, or as several full ones
	commands atomic.Int64 // of Redis's protocol; calls inside a script are not counted
}

// dial opens a counted connection.
func (c *counter) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	inner, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	tcp, ok := inner.(*net.TCPConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("%s is not TCP", network), inner.Close())
	}
	return &countedConn{TCPConn: tcp, counter: c}, nil
}

// countedConn is written to by one goroutine at a time, which is true for all clients
// here. It embeds a TCPConn for clients that check the socket for a closed server.
type countedConn struct {
	*net.TCPConn
	counter *counter
	scanner scanner
}

func (c *countedConn) Write(p []byte) (int, error) {
	c.counter.packets.Add(1)
	c.counter.commands.Add(c.scanner.scan(p))
	return c.TCPConn.Write(p)
}

// scanner finds the ends of commands in what a client sends. A command is an array of
// strings (https://redis.io/docs/latest/develop/reference/protocol-spec):
//
//	*2\r\n $3\r\nGET\r\n $1\r\nk\r\n
//
// For other servers its count has no meaning.
type scanner struct {
	strings int  // left in this command
	skip    int  // bytes left of a string and its end
	number  int  // of the line that is read
	kind    byte // of the line: '*', '$', or 0 before its first byte
}

// scan returns how many commands end in p.
func (s *scanner) scan(p []byte) (ended int64) {
	for i := 0; i < len(p); i++ {
		if s.skip > 0 {
			n := min(s.skip, len(p)-i)
			s.skip -= n
			i += n - 1
			if s.skip == 0 && s.strings == 0 {
				ended++
			}
			continue
		}
		s.line(p[i])
	}
	return ended
}

// line takes one byte of a line with a count or a length.
func (s *scanner) line(b byte) {
	switch {
	case b == '*' || b == '$':
		s.kind, s.number = b, 0
	case b >= '0' && b <= '9':
		s.number = 10*s.number + int(b-'0')
	case b == '\n' && s.kind == '*':
		s.kind, s.strings = 0, s.number
	case b == '\n' && s.kind == '$':
		s.kind, s.skip = 0, s.number+len("\r\n")
		s.strings--
	}
}
