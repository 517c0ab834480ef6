package guardtest_test

import (
	"testing"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/guard/guardtest"
)

// The test of a store calls TestStore.
func ExampleTestStore() {
	_ = func(t *testing.T) { // func TestStore(t *testing.T)
		guardtest.TestStore(t, func(*testing.T) guard.Store { return new(guard.Memory) })
	}
}
