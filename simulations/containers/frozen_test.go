package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/simulations/containers/wire"
)

const rounds = 10

// A's container is frozen past the end of A's lease, B writes, and the first
// thing that A does when it thaws is to write too.
func TestAFrozenContainer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := lockUp(t, w)
	for name, c := range twins {
		t.Run(name, func(t *testing.T) { // one at a time: there is one account
			for range rounds {
				seen := a.ask(wire.Order{Do: wire.Hold, TTL: time.Second, Observe: c.observe})
				require.Empty(t, seen.Outcome)
				a.freeze()
				a.tell(wire.Order{Do: wire.Write, Balance: seen.Balance - 50, Observe: c.observe})
				w.deposit(t)
				a.thaw()
				require.Equal(t, c.outcome, a.hear().Outcome)
				require.Equal(t, seen.Balance+c.adds, w.balance(t))
			}
		})
	}
}
