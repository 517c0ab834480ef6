package pgtoken_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/fencepost/fencepost/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.AtOnce(4) // most wait for leases to end
	goleak.VerifyTestMain(m)
}
