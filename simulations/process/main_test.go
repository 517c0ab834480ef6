package process_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/fencepost/fencepost/simulations/process"
)

var subjects = process.Subjects{
	"postgres":      openPostgres,
	"re-enters":     openReentrant,
	"http":          openHTTP,
	"traced issuer": openTraced,
	"lock only":     openLockOnly,
	"check":         openCheckThenWrite,
	"in time":       openInTime,
	"fails":         openFailing,
	"no server":     openNothing,
}

func TestMain(m *testing.M) {
	process.Serve(m, subjects)
	goleak.VerifyTestMain(m)
}
