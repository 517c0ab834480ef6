package simulate

import (
	"errors"
	"fmt"
	"net/url"
	"time"
)

const (
	// reach bounds the first answer of a server.
	reach = 5 * time.Second
	// farewell bounds the end of an idle writer, and cleanup what a run removes.
	farewell = 5 * time.Second
	cleanup  = 30 * time.Second
	// patience bounds one step of a round, besides the waiting for the lease.
	patience = 30 * time.Second

	// MinTTL leaves a lease something besides the locker's margin of 10 ms.
	MinTTL    = 20 * time.Millisecond
	maxRounds = 100_000
)

// Options say what to run. Rounds, TTL and Writer are required.
type Options struct {
	Redis    string        // URL; empty: an embedded server
	Postgres string        // URL; empty: SQLite, embedded
	Rounds   int           // of each way
	TTL      time.Duration // of the lock, in whole milliseconds, at least MinTTL
	Pause    Pause         // zero: the best there is
	// Writer is the command line of a process that calls Serve on its standard
	// input and output.
	Writer []string
	// Observe, if not nil, is called with every event as it comes in, on Run's
	// own goroutine; it must be quick.
	Observe func(Progress)
}

// Progress is where a run stands.
type Progress struct {
	Way   Way
	Round int // from 1
	Event Event
}

// Check returns nil, or an error that says which option cannot be meant. It
// never shows a password.
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
	return errors.Join(
		checkURL("redis", o.Redis, "redis", "rediss", "unix"),
		checkURL("postgres", o.Postgres, "postgres", "postgresql"),
	)
}

func checkURL(flag, text string, schemes ...string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil {
		return fmt.Errorf("%s: not a URL", flag) // err would show its password
	}
	for _, scheme := range schemes {
		if u.Scheme == scheme {
			return nil
		}
	}
	return fmt.Errorf("%s: not a %s:// URL", flag, schemes[0])
}
