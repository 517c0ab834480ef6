package register_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fencepost/fencepost/internal/register"
	"github.com/fencepost/fencepost/internal/register/registertest"
)

// One process at a server without latency, and sixteen at one to which each way takes up to
// a millisecond.
func TestIssuer(t *testing.T) {
	t.Parallel()
	for _, far := range []bool{false, true} {
		for _, poor := range []bool{false, true} { // versions repeat, and replies have no clock
			t.Run(fmt.Sprintf("far=%v, poor=%v", far, poor), func(t *testing.T) {
				t.Parallel()
				m, processes := &memory{clockless: poor}, 1
				if far {
					processes = 16
					m.trip = func() time.Duration { return rand.N(time.Millisecond) }
				}
				registertest.TestIssuer(t, processes, func(*testing.T, int) register.Interface {
					return &register.Issuer{Store: m.client(""), LoadFirst: poor}
				}, func(_ context.Context, resource string) error {
					m.forget(resource)
					return nil
				})
			})
		}
	}
}
