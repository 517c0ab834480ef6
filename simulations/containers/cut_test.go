package main

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/testcontainers/testcontainers-go"

	"github.com/fencepost/fencepost/simulations/containers/wire"
)

// A's container is disconnected from networks, and connected again.
func TestAContainerThatIsCutOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := lockUp(t, w)
	for name, c := range twins {
		hold := func(t *testing.T) (balance int) {
			t.Helper()
			seen := a.ask(wire.Order{Do: wire.Hold, TTL: time.Second, Observe: c.observe})
			require.Empty(t, seen.Outcome)
			return seen.Balance
		}
		write := func(seen int) wire.Order {
			return wire.Order{Do: wire.Write, Balance: seen - 50, Observe: c.observe}
		}
		t.Run("from its lock: "+name, func(t *testing.T) { // one at a time: there is one account
			seen := hold(t)
			address := a.disconnect(w.redisNet)
			require.Equal(t, wire.Gone, a.ask(wire.Order{Do: wire.Lost}).Outcome)
			w.deposit(t)
			require.Equal(t, c.outcome, a.ask(write(seen)).Outcome)
			require.Equal(t, seen+c.adds, w.balance(t))
			a.reconnect(w.redisNet, address)
		})
		// A's kernel sends the packet again and again, and at last it arrives.
		t.Run("from everything, with a write on its way: "+name, func(t *testing.T) {
			seen := hold(t)
			redis, postgres := a.disconnect(w.redisNet), a.disconnect(w.postgresNet)
			a.tell(write(seen))
			w.deposit(t)
			require.Equal(t, seen+10, w.balance(t))
			a.reconnect(w.postgresNet, postgres)
			require.Equal(t, c.outcome, a.hear().Outcome)
			require.Equal(t, seen+c.adds, w.balance(t))
			a.reconnect(w.redisNet, redis)
		})
	}
	// hazard G8
	t.Run("from everything, inside a transaction, it keeps nobody waiting for longer than the bound", func(t *testing.T) {
		seen := a.ask(wire.Order{Do: wire.Hold, TTL: time.Second})
		require.Empty(t, a.ask(wire.Order{Do: wire.Begin, Balance: seen.Balance - 50}).Outcome)
		nets := map[*testcontainers.DockerNetwork]netip.Addr{}
		for _, net := range []*testcontainers.DockerNetwork{w.redisNet, w.postgresNet} {
			nets[net] = a.disconnect(net)
		}
		w.deposit(t) // which ends A's session
		for net, address := range nets {
			a.reconnect(net, address)
		}
		require.Contains(t, []string{wire.Evicted, wire.Unknown, wire.Gone}, a.ask(wire.Order{Do: wire.Commit}).Outcome)
		require.Equal(t, seen.Balance+10, w.balance(t))
	})
}
