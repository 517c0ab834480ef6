package simulations_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/simulations"
)

func TestGate(t *testing.T) {
	t.Parallel()
	t.Run("goroutines of one writer are let through one by one", func(t *testing.T) {
		t.Parallel()
		gate := simulations.NewGate()
		var through atomic.Int32
		var group sync.WaitGroup
		for range 5 {
			group.Go(func() {
				gate.Pass("step")
				through.Add(1)
			})
		}
		for n := range int32(5) {
			require.Equal(t, "step", gate.Next())
			require.LessOrEqual(t, through.Load(), n, "one more is stopped, and no other was let through")
			gate.Go()
		}
		group.Wait()
	})
	t.Run("an open one stops nobody, and lets those go who were stopped", func(t *testing.T) {
		t.Parallel()
		gate := simulations.NewGate()
		var group sync.WaitGroup
		for range 5 {
			group.Go(func() { gate.Pass("step") })
		}
		gate.Next()
		gate.Open()
		group.Wait()
		gate.Pass("another")
		gate.Open()
	})
}
