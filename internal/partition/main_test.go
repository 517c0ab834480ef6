// Package partition cuts a holder off from its issuer, and looks whether it
// hears of that before somebody else has the resource.
//
//	holder ──▶ proxy ──✂──▶ issuer's servers ◀── contender
//
// A lock that says so later lets two of them work at once, however good its
// server is.
package partition_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fencepost/fencepost/internal/testenv"
)

// envRounds is how many rounds each issuer has.
const envRounds = "FENCEPOST_PARTITIONS"

const (
	ttl = time.Second
	// margin is what this machine, on which other tests run, may wake us too
	// late. What is reported as lead is what is left of it.
	margin = ttl / 4
	// patience only ends what hangs.
	patience = time.Minute
	// atOnce is how many rounds run at the same time.
	atOnce = 10
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func rounds(t *testing.T) int { t.Helper(); return testenv.Rounds(t, envRounds, 10) }
