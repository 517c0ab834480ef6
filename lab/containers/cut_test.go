package main

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/testcontainers/testcontainers-go"

	"github.com/fencepost/fencepost/lab/containers/wire"
)

// A's container is disconnected from networks and connected again.
func TestAContainerThatIsCutOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := lockUp(t, w)
	for name, c := range twins {
		write := func(seen int) wire.Order {
			return wire.Order{Do: wire.Write, Balance: seen - 50, Observe: c.observe}
		}
		t.Run("from its lock: "+name, func(t *testing.T) { // one at a time: there is one account
			seen := a.hold(c.observe)
			address := a.disconnect(w.redisNet)
			require.Equal(t, wire.Gone, a.exchange(wire.Order{Do: wire.Lost}).Outcome)
			w.deposit(t)
			require.Equal(t, c.outcome, a.exchange(write(seen)).Outcome)
			require.Equal(t, seen+c.adds, w.balance(t))
			a.reconnect(w.redisNet, address)
		})
		// A's kernel retransmits the packet until it arrives.
		t.Run("from everything, with a write on its way: "+name, func(t *testing.T) {
			seen := a.hold(c.observe)
			redis, postgres := a.disconnect(w.redisNet), a.disconnect(w.postgresNet)
			a.send(write(seen))
			w.deposit(t)
			require.Equal(t, seen+10, w.balance(t))
			a.reconnect(w.postgresNet, postgres)
			require.Equal(t, c.outcome, a.receive().Outcome)
			require.Equal(t, seen+c.adds, w.balance(t))
			a.reconnect(w.redisNet, redis)
		})
	}
	// hazard G8
	t.Run("from everything, inside a transaction, it blocks no other writer for longer than the bound", func(t *testing.T) {
		seen := a.hold(false)
		require.Empty(t, a.exchange(wire.Order{Do: wire.Begin, Balance: seen - 50}).Outcome)
		nets := map[*testcontainers.DockerNetwork]netip.Addr{}
		for _, net := range []*testcontainers.DockerNetwork{w.redisNet, w.postgresNet} {
			nets[net] = a.disconnect(net)
		}
		w.deposit(t) // ends A's session
		for net, address := range nets {
			a.reconnect(net, address)
		}
		require.Contains(t, []string{wire.Evicted, wire.Unknown, wire.Gone}, a.exchange(wire.Order{Do: wire.Commit}).Outcome)
		require.Equal(t, seen+10, w.balance(t))
	})
}

const rounds = 10

// A's container is frozen past the end of A's lease, and B writes. The first action of A
// after it is thawed is a write.
func TestAFrozenContainer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := lockUp(t, w)
	for name, c := range twins {
		t.Run(name, func(t *testing.T) { // one at a time: there is one account
			for range rounds {
				seen := a.hold(c.observe)
				a.freeze()
				a.send(wire.Order{Do: wire.Write, Balance: seen - 50, Observe: c.observe})
				w.deposit(t)
				a.thaw()
				require.Equal(t, c.outcome, a.receive().Outcome)
				require.Equal(t, seen+c.adds, w.balance(t))
			}
		})
	}
}
