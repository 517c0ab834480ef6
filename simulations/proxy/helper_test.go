package proxy_test

import (
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/simulations/proxy"
)

// ceiling ends what hangs. No test is about its length.
const ceiling = 30 * time.Second

// serve starts a server that does the same with every connection, and a proxy
// before it.
func serve(t *testing.T, do func(*net.TCPConn)) *proxy.Proxy {
	t.Helper()
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.AcceptTCP()
			if err != nil {
				return
			}
			running.Go(func() {
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(ceiling))
				do(conn)
			})
		}
	})
	p := start(t, listener.Addr().String())
	t.Cleanup(func() {
		p.Close() // first, so that the server's connections end
		listener.Close()
		running.Wait()
	})
	return p
}

func start(t *testing.T, target string) *proxy.Proxy {
	t.Helper()
	p, err := proxy.Start(target)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

func echo(conn *net.TCPConn) { _, _ = io.Copy(conn, conn) }

// talk is a server that hands its connections to the test.
func talk(t *testing.T) (p *proxy.Proxy, accepted <-chan *net.TCPConn) {
	conns, over := make(chan *net.TCPConn), make(chan struct{})
	p = serve(t, func(conn *net.TCPConn) {
		select {
		case conns <- conn:
			<-over
		case <-over:
		}
	})
	t.Cleanup(func() { close(over) }) // before serve's
	return p, conns
}

func dial(t *testing.T, p *proxy.Proxy) *net.TCPConn {
	t.Helper()
	conn, err := net.DialTimeout("tcp", p.Addr(), ceiling)
	require.NoError(t, err)
	require.NoError(t, conn.SetDeadline(time.Now().Add(ceiling)))
	t.Cleanup(func() { conn.Close() })
	return conn.(*net.TCPConn)
}

// refused requires that a new connection is reset, while it is made or then.
func refused(t *testing.T, p *proxy.Proxy) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", p.Addr(), ceiling)
	if err == nil {
		defer conn.Close()
		require.NoError(t, conn.SetDeadline(time.Now().Add(ceiling)))
		_, err = conn.Read(make([]byte, 1))
	}
	require.ErrorIs(t, err, syscall.ECONNRESET)
}

// meet returns the server's end of client, once both are sure to be connected.
func meet(t *testing.T, client net.Conn, accepted <-chan *net.TCPConn) *net.TCPConn {
	t.Helper()
	server := <-accepted
	say(t, client, "hello")
	hear(t, server, "hello")
	return server
}

func say(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	_, err := conn.Write([]byte(text))
	require.NoError(t, err)
}

func hear(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	heard := make([]byte, len(text))
	_, err := io.ReadFull(conn, heard)
	require.NoError(t, err)
	require.Equal(t, text, string(heard))
}

// mute requires that nothing comes for a while.
func mute(t *testing.T, conn net.Conn) {
	t.Helper()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
	n, err := conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, errTimeout)
	require.Zero(t, n)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(ceiling)))
}

// await waits until the proxy holds so many bytes.
func await(t *testing.T, p *proxy.Proxy, way proxy.Way, held int) {
	t.Helper()
	require.Eventually(t, func() bool { return p.Held(way) == held }, ceiling, time.Millisecond)
}
