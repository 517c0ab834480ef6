package netfault_test

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/netfault"
)

func TestBlackhole(t *testing.T) {
	t.Parallel()
	t.Run("held data arrives late and whole, followed by the end", func(t *testing.T) {
		t.Parallel()
		p, client, server := connect(t)
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
		p, client, server := connect(t)
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
		p, client, server := connect(t)
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
		p, client, server := connect(t)
		p.Blackhole(netfault.ToServer)
		say(t, client, "lost")
		await(t, p, netfault.ToServer, 4)
		p.Cut(netfault.Both)
		p.Heal(netfault.Both)
		requireReset(t, server)
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
		requireReset(t, client)
		requireReset(t, server)
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
		requireReset(t, client)
		requireReset(t, server)
		client = dial(t, p)
		say(t, client, "again")
		receive(t, <-accepted, "again")
	})
	t.Run("the client alone is reset, and the server is not until it heals", func(t *testing.T) {
		t.Parallel()
		p, client, server := connect(t)
		say(t, client, "question")
		receive(t, server, "question")
		p.Cut(netfault.ToClient)
		requireReset(t, client)
		say(t, server, strings.Repeat("answer", 1<<16))
		await(t, p, netfault.ToClient, 0)
		requireSilence(t, server)
		p.Heal(netfault.ToClient)
		requireReset(t, server)
	})
	t.Run("the client alone is reset, and its last data arrives", func(t *testing.T) {
		t.Parallel()
		p, client, server := connect(t)
		p.Blackhole(netfault.ToServer)
		say(t, client, "last words")
		await(t, p, netfault.ToServer, 10)
		p.Cut(netfault.ToClient)
		p.Heal(netfault.ToServer)
		receive(t, server, "last words")
		requireSilence(t, server)
	})
	t.Run("the server alone is reset, and the client is not until it heals", func(t *testing.T) {
		t.Parallel()
		p, client, server := connect(t)
		p.Cut(netfault.ToServer)
		requireReset(t, server)
		say(t, client, "hello?")
		requireSilence(t, client)
		p.Heal(netfault.ToServer)
		requireReset(t, client)
	})
}
