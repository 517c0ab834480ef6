package proxy

import (
	"context"
	"net"
	"sync"
)

// link is a connection from a client through the proxy to the server.
type link struct {
	client      *net.TCPConn
	ctx         context.Context // of the link's life
	end         context.CancelFunc
	there, back *flow // to the server, to the client

	mu     sync.Mutex
	server *net.TCPConn // nil until it was reached
	halved Way          // the ways whose receiver was cut off, and alone knows it
}

func newLink(client *net.TCPConn, toServer, toClient *gate) *link {
	l := &link{client: client, there: newFlow(toServer, toClient), back: newFlow(toClient, toServer)}
	l.ctx, l.end = context.WithCancel(context.Background())
	return l
}

// connect reports whether the server was reached while the link lived.
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
		l.reset() // cut meanwhile
		return false
	}
	return true
}

// run passes everything on until both ways have ended.
func (l *link) run() {
	var running sync.WaitGroup
	for _, f := range []*flow{l.there, l.back} {
		running.Go(func() { f.read(l.ctx) })
		running.Go(func() { f.write(l.ctx, l.gone) })
	}
	running.Wait()
}
