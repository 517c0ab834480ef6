package simulations_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/fencepost/fencepost/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.AtOnce(6) // the director waits for writers who wait for sleepers
	goleak.VerifyTestMain(m)
}
