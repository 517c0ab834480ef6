package simulate

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/connect"
	"github.com/fencepost/fencepost/internal/subprocess"
)

const (
	// cleanupTimeout bounds the removal at the end of a run.
	cleanupTimeout = 2 * time.Minute
	// stepTimeout bounds one step of a round, in addition to three leases.
	stepTimeout = 2 * time.Minute

	// MinTTL is above the locker's safety margin of 10 ms.
	MinTTL    = 20 * time.Millisecond
	maxRounds = 100_000
)

// Options are the options of [Run]. Rounds, TTL and Writer are required.
type Options struct {
	Redis    string           // URL; empty: an embedded server
	Postgres string           // URL; empty: SQLite, embedded
	Rounds   int              // of each way
	TTL      time.Duration    // of the lock, in whole milliseconds, at least MinTTL
	Pause    subprocess.Pause // zero: the best there is
	// Writer is the command line of a process that calls Serve on its standard
	// input and output.
	Writer []string
	// Observe is called with each event when it arrives, on the goroutine of Run, which it
	// blocks. Nil for no calls.
	Observe func(Progress)
}

// Progress is the progress of a run.
type Progress struct {
	Way   Way
	Round int // from 1
	Event Event
}

// Check returns an error that names the first invalid option, or nil. The error has no
// password.
func (o Options) Check() error {
	switch {
	case o.Rounds < 1 || o.Rounds > maxRounds:
		return fmt.Errorf("rounds: %d is not between 1 and %d", o.Rounds, maxRounds)
	case o.TTL < MinTTL:
		return fmt.Errorf("ttl: %s is less than %s", o.TTL, MinTTL)
	case o.TTL%time.Millisecond != 0:
		return fmt.Errorf("ttl: %s is not in whole milliseconds", o.TTL)
	case len(o.Writer) == 0:
		return errors.New("no command line for the writers")
	}
	var redis, postgres error
	if o.Redis != "" {
		_, redis = connect.RedisOptions(o.Redis, "redis")
	}
	if u, err := url.Parse(o.Postgres); o.Postgres != "" && (err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql") {
		postgres = connect.BadURL("postgres: not a postgres:// URL") // err would show its password
	}
	return errors.Join(redis, postgres)
}

// A Way is what a writer does between its read and its write.
type Way string

// The four ways. Only Guarded refuses stale writes.
const (
	// Unguarded writes without a check.
	Unguarded Way = "unguarded"
	// Recheck renews the lease in Redis, then writes.
	Recheck Way = "recheck"
	// CheckThenWrite reads the mark beside the row and compares its token with it, then
	// writes the row and the mark.
	CheckThenWrite Way = "check-then-write"
	// Guarded claims before it reads. The transaction that writes compares its token
	// with the mark.
	Guarded Way = "guarded"
)

// Ways returns the four ways, in the order of a run.
func Ways() []Way { return []Way{Unguarded, Recheck, CheckThenWrite, Guarded} }
