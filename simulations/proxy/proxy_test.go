package proxy_test

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

	"github.com/fencepost/fencepost/simulations/proxy"
)

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
			sent, heard := sha256.New(), sha256.New()
			var reading sync.WaitGroup
			reading.Go(func() { _, _ = io.Copy(heard, conn) })
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
			require.Equal(t, sent.Sum(nil), heard.Sum(nil))
		})
	}
	clients.Wait()
	require.Zero(t, p.Held(proxy.Both))
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
	p, accepted := talk(t)
	client := dial(t, p)
	server := meet(t, client, accepted)
	require.NoError(t, client.SetWriteDeadline(time.Now().Add(500*time.Millisecond)))
	sent, piece := int64(0), make([]byte, 1<<20)
	var err error
	for err == nil && sent < 1<<30 {
		var n int
		n, err = client.Write(piece)
		sent += int64(n)
	}
	require.ErrorIs(t, err, errTimeout, "a gigabyte went into nowhere")
	require.Positive(t, sent)
	require.LessOrEqual(t, p.Held(proxy.ToServer), 1<<20)
	require.NoError(t, client.CloseWrite())
	n, err := io.Copy(io.Discard, server)
	require.NoError(t, err)
	require.Equal(t, sent, n)
}

func TestAResetIsPassedOn(t *testing.T) {
	t.Parallel()
	p, accepted := talk(t)
	client := dial(t, p)
	server := meet(t, client, accepted)
	require.NoError(t, client.SetLinger(0))
	require.NoError(t, client.Close())
	_, err := server.Read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ECONNRESET)
}

func TestWithoutAServerClientsAreReset(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	p := start(t, listener.Addr().String())
	refused(t, p)
}

func TestCloseEndsEverything(t *testing.T) {
	t.Parallel()
	p, accepted := talk(t)
	held := dial(t, p)
	meet(t, held, accepted)
	p.Blackhole(proxy.Both)
	say(t, held, "held")
	await(t, p, proxy.ToServer, 4)
	mute(t, dial(t, p))
	p.Close()
	p.Close()
	_, err := held.Read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ECONNRESET)
	_, err = net.Dial("tcp", p.Addr())
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}

func TestAnAddressWithoutAPortIsAnError(t *testing.T) {
	t.Parallel()
	_, err := proxy.Start("127.0.0.1")
	require.Error(t, err)
}
