package netfault_test

import (
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/netfault"
	"github.com/fencepost/fencepost/internal/test/leaktest"
	"github.com/fencepost/fencepost/internal/test/serverproc"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

var errTimeout = os.ErrDeadlineExceeded

func TestHealthyItPassesEverythingInOrder(t *testing.T) {
	t.Parallel()
	p := serve(t, echo)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var clients sync.WaitGroup
	for i := range uint64(32) {
		conn := dial(t, p)
		clients.Go(func() {
			sent, received := sha256.New(), sha256.New()
			var reading sync.WaitGroup
			reading.Go(func() { _, _ = io.Copy(received, conn) })
			random := rand.NewChaCha8([32]byte{byte(i), byte(seed), byte(seed >> 8)})
			sizes := rand.New(random)
			for range 40 {
				piece := make([]byte, 1+sizes.IntN(1<<sizes.IntN(18)))
				_, _ = random.Read(piece)
				_, err := io.MultiWriter(conn, sent).Write(piece)
				require.NoError(t, err)
			}
			require.NoError(t, conn.CloseWrite())
			reading.Wait()
			require.Equal(t, sent.Sum(nil), received.Sum(nil))
		})
	}
	clients.Wait()
	require.Zero(t, p.Held(netfault.Both))
}

func TestTheLastBytesArriveAfterBothHaveClosed(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	p := serve(t, func(conn *net.TCPConn) {
		_, _ = io.Copy(io.Discard, conn)
		_, _ = conn.Write(make([]byte, size))
	})
	conn := dial(t, p)
	require.NoError(t, conn.CloseWrite())
	time.Sleep(10 * time.Millisecond) // the server is done, and this end has read nothing
	n, err := io.Copy(io.Discard, conn)
	require.NoError(t, err)
	require.EqualValues(t, size, n)
}

func TestAReceiverThatDoesNotReadStopsItsSender(t *testing.T) {
	t.Parallel()
	p, client, server := connect(t)
	require.NoError(t, client.SetWriteDeadline(time.Now().Add(500*time.Millisecond)))
	sent, piece := int64(0), make([]byte, 1<<20)
	var err error
	for err == nil && sent < 1<<30 {
		var n int
		n, err = client.Write(piece)
		sent += int64(n)
	}
	require.ErrorIs(t, err, errTimeout, "the writes did not block")
	require.Positive(t, sent)
	require.LessOrEqual(t, p.Held(netfault.ToServer), 1<<20)
	require.NoError(t, client.CloseWrite())
	n, err := io.Copy(io.Discard, server)
	require.NoError(t, err)
	require.Equal(t, sent, n)
}

func TestAResetIsPassedOn(t *testing.T) {
	t.Parallel()
	_, client, server := connect(t)
	require.NoError(t, client.SetLinger(0))
	require.NoError(t, client.Close())
	requireReset(t, server)
}

func TestWithoutAServerClientsAreReset(t *testing.T) {
	t.Parallel()
	refused(t, start(t, serverproc.Loopback(serverproc.FreePort(t))))
}

func TestCloseEndsEverything(t *testing.T) {
	t.Parallel()
	p, accepted := talk(t)
	held := dial(t, p)
	meet(t, held, accepted)
	p.Blackhole(netfault.Both)
	say(t, held, "held")
	await(t, p, netfault.ToServer, 4)
	requireSilence(t, dial(t, p))
	p.Close()
	p.Close()
	requireReset(t, held)
	_, err := net.Dial("tcp", p.Addr())
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}

func TestAnAddressWithoutAPortIsAnError(t *testing.T) {
	t.Parallel()
	_, err := netfault.Start("127.0.0.1")
	require.Error(t, err)
}

// ceiling is when a test that hangs fails. No test depends on its length.
const ceiling = 2 * time.Minute

// serve starts a server that calls do with every connection, and a proxy in front of it.
func serve(t *testing.T, do func(*net.TCPConn)) *netfault.Proxy {
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

func start(t *testing.T, target string) *netfault.Proxy {
	t.Helper()
	p, err := netfault.Start(target)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

func echo(conn *net.TCPConn) { _, _ = io.Copy(conn, conn) }

// talk starts a server that hands its connections to the test.
func talk(t *testing.T) (p *netfault.Proxy, accepted <-chan *net.TCPConn) {
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

// connect returns a proxy, and both ends of a connection through it.
func connect(t *testing.T) (p *netfault.Proxy, client, server *net.TCPConn) {
	t.Helper()
	p, accepted := talk(t)
	client = dial(t, p)
	return p, client, meet(t, client, accepted)
}

func dial(t *testing.T, p *netfault.Proxy) *net.TCPConn {
	t.Helper()
	conn, err := net.DialTimeout("tcp", p.Addr(), ceiling)
	require.NoError(t, err)
	require.NoError(t, conn.SetDeadline(time.Now().Add(ceiling)))
	t.Cleanup(func() { conn.Close() })
	return conn.(*net.TCPConn)
}

// refused requires that a new connection is reset, during or after the connect.
func refused(t *testing.T, p *netfault.Proxy) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", p.Addr(), ceiling)
	if err == nil {
		defer conn.Close()
		require.NoError(t, conn.SetDeadline(time.Now().Add(ceiling)))
		_, err = conn.Read(make([]byte, 1))
	}
	require.ErrorIs(t, err, syscall.ECONNRESET)
}

// requireReset requires that conn is reset before anything arrives.
func requireReset(t *testing.T, conn net.Conn) {
	t.Helper()
	n, err := conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ECONNRESET)
	require.Zero(t, n)
}

// meet returns the server's end of client, once both ends are connected.
func meet(t *testing.T, client net.Conn, accepted <-chan *net.TCPConn) *net.TCPConn {
	t.Helper()
	server := <-accepted
	say(t, client, "hello")
	receive(t, server, "hello")
	return server
}

func say(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	_, err := conn.Write([]byte(text))
	require.NoError(t, err)
}

func receive(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	received := make([]byte, len(text))
	_, err := io.ReadFull(conn, received)
	require.NoError(t, err)
	require.Equal(t, text, string(received))
}

// requireSilence requires that nothing arrives for a while.
func requireSilence(t *testing.T, conn net.Conn) {
	t.Helper()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
	n, err := conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, errTimeout)
	require.Zero(t, n)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(ceiling)))
}

// await waits until the proxy holds that many bytes.
func await(t *testing.T, p *netfault.Proxy, way netfault.Way, held int) {
	t.Helper()
	require.Eventually(t, func() bool { return p.Held(way) == held }, ceiling, time.Millisecond)
}
