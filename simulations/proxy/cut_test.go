package proxy_test

import (
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/simulations/proxy"
)

func TestCut(t *testing.T) {
	t.Parallel()
	t.Run("both ends are reset, and new ones until it heals", func(t *testing.T) {
		t.Parallel()
		p, accepted := talk(t)
		client := dial(t, p)
		server := meet(t, client, accepted)
		p.Cut(proxy.Both)
		for _, conn := range []io.Reader{client, server} {
			_, err := conn.Read(make([]byte, 1))
			require.ErrorIs(t, err, syscall.ECONNRESET)
		}
		refused(t, p)
		p.Heal(proxy.Both)
		client = dial(t, p)
		say(t, client, "again")
		hear(t, <-accepted, "again")
	})
	t.Run("the client alone, and the server knows nothing until it heals", func(t *testing.T) {
		t.Parallel()
		p, accepted := talk(t)
		client := dial(t, p)
		server := meet(t, client, accepted)
		say(t, client, "question")
		hear(t, server, "question")
		p.Cut(proxy.ToClient)
		_, err := client.Read(make([]byte, 1))
		require.ErrorIs(t, err, syscall.ECONNRESET)
		say(t, server, strings.Repeat("answer", 1<<16))
		await(t, p, proxy.ToClient, 0)
		mute(t, server)
		p.Heal(proxy.ToClient)
		_, err = server.Read(make([]byte, 1))
		require.ErrorIs(t, err, syscall.ECONNRESET)
	})
	t.Run("the client alone, whose last words arrive", func(t *testing.T) {
		t.Parallel()
		p, accepted := talk(t)
		client := dial(t, p)
		server := meet(t, client, accepted)
		p.Delay(proxy.ToServer, time.Hour)
		say(t, client, "last words")
		await(t, p, proxy.ToServer, 10)
		p.Cut(proxy.ToClient)
		p.Delay(proxy.ToServer, 0)
		hear(t, server, "last words")
		mute(t, server)
	})
	t.Run("the server alone, and the client knows nothing until it heals", func(t *testing.T) {
		t.Parallel()
		p, accepted := talk(t)
		client := dial(t, p)
		server := meet(t, client, accepted)
		p.Cut(proxy.ToServer)
		_, err := server.Read(make([]byte, 1))
		require.ErrorIs(t, err, syscall.ECONNRESET)
		say(t, client, "hello?")
		mute(t, client)
		p.Heal(proxy.ToServer)
		_, err = client.Read(make([]byte, 1))
		require.ErrorIs(t, err, syscall.ECONNRESET)
	})
}
