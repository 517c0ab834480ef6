package sqlguard_test

import (
	"testing"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/guard/guardtest"
)

func TestGuardIsAStore(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	guardtest.TestStore(t, func(*testing.T) guard.Store { return e.guard })
}
