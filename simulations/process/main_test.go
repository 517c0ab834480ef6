package process_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/fencepost/fencepost/simulations/process"
)

func TestMain(m *testing.M) {
	process.Serve(m, process.Subjects{
		"postgres":  openPostgres,
		"http":      openHTTP,
		"lock only": openLockOnly,
		"check":     openCheckThenWrite,
		"fails":     openFailing,
	})
	goleak.VerifyTestMain(m)
}
