package simulations_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/fencepost/fencepost/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.AtOnce(6) // writers wait for each other most of the time
	goleak.VerifyTestMain(m)
}
