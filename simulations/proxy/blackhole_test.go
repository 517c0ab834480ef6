package proxy_test

import (
	"io"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/simulations/proxy"
)

func TestBlackhole(t *testing.T) {
	t.Parallel()
	t.Run("what it swallowed arrives late, whole and with the end behind it", func(t *testing.T) {
		t.Parallel()
		p, accepted := talk(t)
		client := dial(t, p)
		server := meet(t, client, accepted)
		p.Blackhole(proxy.ToServer)
		say(t, client, "late ")
		await(t, p, proxy.ToServer, 5)
		say(t, client, "packet")
		await(t, p, proxy.ToServer, 11)
		require.NoError(t, client.Close())
		mute(t, server)
		p.Heal(proxy.ToServer)
		all, err := io.ReadAll(server)
		require.NoError(t, err)
		require.Equal(t, "late packet", string(all))
		await(t, p, proxy.ToServer, 0)
	})
	t.Run("the other way is open", func(t *testing.T) {
		t.Parallel()
		p, accepted := talk(t)
		client := dial(t, p)
		server := meet(t, client, accepted)
		p.Blackhole(proxy.ToClient)
		say(t, client, "question")
		hear(t, server, "question")
		say(t, server, "answer")
		await(t, p, proxy.ToClient, 6)
		mute(t, client)
		p.Heal(proxy.ToClient)
		hear(t, client, "answer")
	})
	t.Run("a new connection is mute, and reaches the server late", func(t *testing.T) {
		t.Parallel()
		p, accepted := talk(t)
		p.Blackhole(proxy.Both)
		client := dial(t, p)
		say(t, client, "hello")
		mute(t, client)
		select {
		case <-accepted:
			require.Fail(t, "the server has heard of it")
		default:
		}
		p.Heal(proxy.Both)
		hear(t, <-accepted, "hello")
	})
	t.Run("nobody hears that the other has gone", func(t *testing.T) {
		t.Parallel()
		p, accepted := talk(t)
		client := dial(t, p)
		server := meet(t, client, accepted)
		p.Blackhole(proxy.ToClient)
		require.NoError(t, server.SetLinger(0))
		require.NoError(t, server.Close())
		say(t, client, "into nowhere")
		mute(t, client)
		p.Heal(proxy.ToClient)
		_, err := client.Read(make([]byte, 1))
		require.Error(t, err) // a write to the server may have used the kernel's one reset up
		require.NotErrorIs(t, err, errTimeout)
	})
	t.Run("what it holds is lost where the connection is cut before it heals", func(t *testing.T) {
		t.Parallel()
		p, accepted := talk(t)
		client := dial(t, p)
		server := meet(t, client, accepted)
		p.Blackhole(proxy.ToServer)
		say(t, client, "lost")
		await(t, p, proxy.ToServer, 4)
		p.Cut(proxy.Both)
		p.Heal(proxy.Both)
		n, err := server.Read(make([]byte, 1))
		require.ErrorIs(t, err, syscall.ECONNRESET)
		require.Zero(t, n)
	})
}
