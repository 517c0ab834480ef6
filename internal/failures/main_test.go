// Package failures puts issuers to the test on servers that die: killed and
// started again, with all kinds of memory; a replica that was cut off and is
// promoted; a failover that nobody ordered. After each failure there are two
// questions. Did the guard accept the writes of two holders under equal or
// falling numbers? And how soon is a new holder writing again, without anybody's
// help?
//
//	turns of some lockers ──▶ one is paused with the lock ──▶ the servers fail
//	──▶ the others go on ──▶ the paused one writes ──▶ the history is judged
//
// In every other round the server's clock was ahead, by up to an hour, and is
// not any more: what its successor gives then is below the mark, until it is
// raised.
package failures_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/fencepost/fencepost/internal/testenv"
)

// envRounds is how many rounds each configuration has.
const envRounds = "FENCEPOST_FAILURES"

const (
	ttl = 500 * time.Millisecond
	// promised is how soon a new holder writes after the servers are back.
	promised = 2 * ttl
	// slack is what a busy machine may be late besides. The table says how many
	// rounds did without it.
	slack = 5 * time.Second
	// patience only ends what hangs.
	patience = 60 * time.Second
)

func TestMain(m *testing.M) {
	testenv.AtOnce(4) // rounds wait most of the time
	redis.SetLogger(silent{})
	goleak.VerifyTestMain(m)
}

// silent is for clients whose servers are expected to die.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func rounds(t *testing.T) int { t.Helper(); return testenv.Rounds(t, envRounds, 4) }
