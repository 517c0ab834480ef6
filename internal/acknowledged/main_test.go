// Package acknowledged counts read-modify-writes that were acknowledged on real
// servers, and looks whether one of them was lost.
//
//	test ──▶ process: holder, holder, …  ──▶ lock ──▶ claim, read, work, guarded write
//	     ◀── acknowledged, …             ◀──
//
// Meanwhile processes are stopped past the ttl of their locks, holders sleep
// through the loss of theirs and write all the same, writers give up in the
// middle of a write, and issuers forget who has what. In the end each row must
// be worth what was acknowledged, besides writes of unknown outcome that a
// trigger saw. The same run with guards that observe must lose some, whatever
// the way, or it has proven nothing.
//
// All processes are this test binary, started again.
package acknowledged_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fencepost/fencepost/internal/testenv"
)

const (
	// envWrites asks for so many acknowledged writes.
	envWrites = "FENCEPOST_ACKNOWLEDGED"
	// envSeed repeats the faults of a run; what happens between them nobody can.
	envSeed = "FENCEPOST_TEST_SEED"
	// envRole turns this test binary into a process of holders.
	envRole = "FENCEPOST_ACKNOWLEDGED_ROLE"
)

const (
	ttl = 250 * time.Millisecond
	// processes contend for each row, with one holder each.
	processes = 3
	// patience only ends what hangs.
	patience = time.Minute
)

func TestMain(m *testing.M) {
	if os.Getenv(envRole) == "" {
		goleak.VerifyTestMain(m)
		return
	}
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// writes is how many are to be acknowledged.
func writes(t *testing.T) (n int, full bool) {
	t.Helper()
	return testenv.Rounds(t, envWrites, 3000), os.Getenv(envWrites) != ""
}

func seed() uint64 {
	if given, err := strconv.ParseUint(os.Getenv(envSeed), 10, 64); err == nil {
		return given
	}
	return rand.Uint64N(1e6)
}
