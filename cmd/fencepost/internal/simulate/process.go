package simulate

import (
	"time"

	"github.com/fencepost/fencepost/internal/subprocess"
)

// process is a writer's process.
type process struct {
	*subprocess.Process[Event]
	name string
}

// The parent writes one setup and then orders to a writer's standard input. The writer
// writes events to its standard output. Each is one line of JSON. URLs are not arguments:
// every user of the machine can read those.

// setup has the names and servers of a run for a writer.
type setup struct {
	Name     string // of the writer
	TTL      time.Duration
	Pause    subprocess.Pause
	Redis    string // URL
	Prefix   string // of all keys
	Postgres string // URL, or "" for SQLite
	Schema   string // of all tables in PostgreSQL
	SQLite   string // path of the file
}

// order is one unit of work: add Amount to the account that Resource names.
type order struct {
	Way      Way
	Resource string
	Amount   int64
	Stop     bool // before the write
}

// A Kind is the kind of an event.
type Kind string

// The kinds of events, in the order of a round. The parent reports Stopped and Continued,
// and the writers report the others.
const (
	Ready     Kind = "ready"     // connected, waiting for orders
	Asks      Kind = "asks"      // requests the lock
	Holds     Kind = "holds"     // acquired the lock: Number
	Claims    Kind = "claims"    // raised the mark to its token
	Reads     Kind = "reads"     // Balance
	Checked   Kind = "checked"   // its check has passed
	Pauses    Kind = "pauses"    // will be stopped before its next step
	Stopped   Kind = "stopped"   // does not run
	Continued Kind = "continued" // runs again
	Accepted  Kind = "accepted"  // its write of Balance was acknowledged
	Refused   Kind = "refused"   // its write of Balance was refused as stale: Text
	Failed    Kind = "failed"    // has an error: Text
)

// An Event is one step of one writer. At is read from the clock of the machine, which all
// processes share.
type Event struct {
	At      time.Time
	Writer  string // "A" or "B"
	Kind    Kind
	Number  int64  `json:",omitempty"`
	Balance int64  `json:",omitempty"`
	Text    string `json:",omitempty"`
}
