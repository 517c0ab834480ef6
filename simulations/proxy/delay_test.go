package proxy_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/simulations/proxy"
)

func TestDelay(t *testing.T) {
	t.Parallel()
	t.Run("everything arrives later, and not one after the other", func(t *testing.T) {
		t.Parallel()
		const delay, words = 400 * time.Millisecond, 10
		p := serve(t, echo)
		client := dial(t, p)
		say(t, client, "hello")
		hear(t, client, "hello")
		p.Delay(proxy.ToServer, delay)
		p.Delay(proxy.ToClient, delay)
		began := time.Now()
		for i := range words {
			say(t, client, "word")
			await(t, p, proxy.ToServer, 4*(i+1)) // so that each is read by itself
		}
		for range words {
			hear(t, client, "word")
		}
		require.GreaterOrEqual(t, time.Since(began), 2*delay)
		require.Less(t, time.Since(began), words*delay)
	})
	t.Run("healing ends it for what is on its way", func(t *testing.T) {
		t.Parallel()
		p := serve(t, echo)
		client := dial(t, p)
		say(t, client, "hello")
		hear(t, client, "hello")
		p.Delay(proxy.Both, time.Hour)
		say(t, client, "word")
		await(t, p, proxy.ToServer, 4)
		mute(t, client)
		p.Heal(proxy.Both)
		hear(t, client, "word")
	})
}
