// Package fairness lets many waiters of several processes take one lock in turn,
// for a while, and counts: is there one holder at a time, has everybody the same
// number of turns, and is nobody passed over? Processes that are killed lose
// their own turns and nobody else's.
//
//	test ──▶ process: waiter, waiter, …  ──▶ issuer's server
//	     ◀── turns: asked, got, done     ◀──
//
// All processes are this test binary, started again.
package fairness_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

const (
	// envFull asks for the full size, and says how long that lasts. Then waits are
	// also judged in time, not only in turns.
	envFull = "FENCEPOST_FAIRNESS"
	// envRole turns this test binary into a process of waiters.
	envRole = "FENCEPOST_FAIRNESS_ROLE"

	resource = "account/42"
)

func TestMain(m *testing.M) {
	if os.Getenv(envRole) == "" {
		goleak.VerifyTestMain(m)
		return
	}
	if err := takeTurns(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// work makes turns long beside what the machine may be late once in a while.
const work = 10 * time.Millisecond

// size is how many waiters there are, for how long.
type size struct {
	waiters int
	lasts   time.Duration
	full    bool
}

func sizeOf(t *testing.T) size {
	t.Helper()
	text := os.Getenv(envFull)
	if text == "" {
		return size{waiters: 16, lasts: 5 * time.Second}
	}
	lasts, err := time.ParseDuration(text)
	require.NoError(t, err)
	return size{waiters: 64, lasts: lasts, full: true}
}
