package netfault_test

import (
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/netfault"
)

func TestBlackhole(t *testing.T) {
	t.Parallel()
	t.Run("held data arrives late and whole, followed by the end", func(t *testing.T) {
		t.Parallel()
		p, accepted := talk(t)
		client := dial(t, p)
		server := meet(t, client, accepted)
		p.Blackhole(netfault.ToServer)
		say(t, client, "late ")
		await(t, p, netfault.ToServer, 5)
		say(t, client, "packet")
		await(t, p, netfault.ToServer, 11)
		require.NoError(t, client.Close())
		requireSilence(t, server)
		p.Heal(netfault.ToServer)
		all, err := io.ReadAll(server)
		require.NoError(t, err)
		require.Equal(t, "late packet", string(all))
		await(t, p, netfault.ToServer, 0)
	})
	t.Run("the other way is open", func(t *testing.T) {
		t.Parallel()
		p, accepted := talk(t)
		client := dial(t, p)
		server := meet(t, client, accepted)
		p.Blackhole(netfault.ToClient)
		say(t, client, "question")
		receive(t, server, "question")
		say(t, server, "answer")
		await(t, p, netfault.ToClient, 6)
		requireSilence(t, client)
		p.Heal(netfault.ToClient)
		receive(t, client, "answer")
	})
	t.Run("a new connection is silent, and reaches the server late", func(t *testing.T) {
		t.Parallel()
		p, accepted := talk(t)
		p.Blackhole(netfault.Both)
		client := dial(t, p)
		say(t, client, "hello")
		requireSilence(t, client)
		select {
		case <-accepted:
			require.Fail(t, "the server accepted a connection")
		default:
		}
		p.Heal(netfault.Both)
		receive(t, <-accepted, "hello")
	})
	t.Run("neither end receives the other's close", func(t *testing.T) {
		t.Parallel()
		p, accepted := talk(t)
		client := dial(t, p)
		server := meet(t, client, accepted)
		p.Blackhole(netfault.ToClient)
		require.NoError(t, server.SetLinger(0))
		require.NoError(t, server.Close())
		say(t, client, "into nowhere")
		requireSilence(t, client)
		p.Heal(netfault.ToClient)
		_, err := client.Read(make([]byte, 1))
		require.Error(t, err) // a write to the server may have used the kernel's one reset up
		require.NotErrorIs(t, err, errTimeout)
	})
	t.Run("held data is lost if the connection is cut before it heals", func(t *testing.T) {
		t.Parallel()
		p, accepted := talk(t)
		client := dial(t, p)
		server := meet(t, client, accepted)
		p.Blackhole(netfault.ToServer)
		say(t, client, "lost")
		await(t, p, netfault.ToServer, 4)
		p.Cut(netfault.Both)
		p.Heal(netfault.Both)
		n, err := server.Read(make([]byte, 1))
		require.ErrorIs(t, err, syscall.ECONNRESET)
		require.Zero(t, n)
	})
}

func TestCut(t *testing.T) {
	t.Parallel()
	t.Run("both ends are reset, and new ones until it heals", func(t *testing.T) {
		t.Parallel()
		p, accepted := talk(t)
		client := dial(t, p)
		server := meet(t, client, accepted)
		p.Cut(netfault.Both)
		for _, conn := range []io.Reader{client, server} {
			_, err := conn.Read(make([]byte, 1))
			require.ErrorIs(t, err, syscall.ECONNRESET)
		}
		refused(t, p)
		p.Heal(netfault.Both)
		client = dial(t, p)
		say(t, client, "again")
		receive(t, <-accepted, "again")
	})
	t.Run("Reset resets both ends, and does not reset later connections", func(t *testing.T) {
		t.Parallel()
		p, accepted := talk(t)
		client := dial(t, p)
		server := meet(t, client, accepted)
		p.Reset()
		for _, conn := range []io.Reader{client, server} {
			_, err := conn.Read(make([]byte, 1))
			require.ErrorIs(t, err, syscall.ECONNRESET)
		}
		client = dial(t, p)
		say(t, client, "again")
		receive(t, <-accepted, "again")
	})
	t.Run("the client alone is reset, and the server is not until it heals", func(t *testing.T) {
		t.Parallel()
		p, accepted := talk(t)
		client := dial(t, p)
		server := meet(t, client, accepted)
		say(t, client, "question")
		receive(t, server, "question")
		p.Cut(netfault.ToClient)
		_, err := client.Read(make([]byte, 1))
		require.ErrorIs(t, err, syscall.ECONNRESET)
		say(t, server, strings.Repeat("answer", 1<<16))
		await(t, p, netfault.ToClient, 0)
		requireSilence(t, server)
		p.Heal(netfault.ToClient)
		_, err = server.Read(make([]byte, 1))
		require.ErrorIs(t, err, syscall.ECONNRESET)
	})
	t.Run("the client alone is reset, and its last data arrives", func(t *testing.T) {
		t.Parallel()
		p, accepted := talk(t)
		client := dial(t, p)
		server := meet(t, client, accepted)
		p.Delay(netfault.ToServer, time.Hour)
		say(t, client, "last words")
		await(t, p, netfault.ToServer, 10)
		p.Cut(netfault.ToClient)
		p.Delay(netfault.ToServer, 0)
		receive(t, server, "last words")
		requireSilence(t, server)
	})
	t.Run("the server alone is reset, and the client is not until it heals", func(t *testing.T) {
		t.Parallel()
		p, accepted := talk(t)
		client := dial(t, p)
		server := meet(t, client, accepted)
		p.Cut(netfault.ToServer)
		_, err := server.Read(make([]byte, 1))
		require.ErrorIs(t, err, syscall.ECONNRESET)
		say(t, client, "hello?")
		requireSilence(t, client)
		p.Heal(netfault.ToServer)
		_, err = client.Read(make([]byte, 1))
		require.ErrorIs(t, err, syscall.ECONNRESET)
	})
}

func TestDelay(t *testing.T) {
	t.Parallel()
	t.Run("all messages are delayed at the same time, not one after the other", func(t *testing.T) {
		t.Parallel()
		const words = 10
		p := serve(t, echo)
		client := dial(t, p)
		say(t, client, "hello")
		receive(t, client, "hello")
		// One after the other they would take words*delay, however long the delay is. A
		// busy machine takes as long only while the delay is short.
		for delay := 50 * time.Millisecond; ; delay *= 2 {
			p.Delay(netfault.ToServer, delay)
			p.Delay(netfault.ToClient, delay)
			began := time.Now()
			for i := range words {
				say(t, client, "word")
				for p.Held(netfault.ToServer) < 4*(i+1) && time.Since(began) < delay { // so that each message is read on its own
					time.Sleep(time.Millisecond)
				}
			}
			for range words {
				receive(t, client, "word")
			}
			took := time.Since(began)
			require.GreaterOrEqual(t, took, 2*delay)
			if took < words*delay {
				return
			}
			require.Less(t, delay, 4*time.Second, "each waited for the one before")
		}
	})
	t.Run("healing ends the delay of data under way", func(t *testing.T) {
		t.Parallel()
		p := serve(t, echo)
		client := dial(t, p)
		say(t, client, "hello")
		receive(t, client, "hello")
		p.Delay(netfault.Both, time.Hour)
		say(t, client, "word")
		await(t, p, netfault.ToServer, 4)
		requireSilence(t, client)
		p.Heal(netfault.Both)
		receive(t, client, "word")
	})
}
