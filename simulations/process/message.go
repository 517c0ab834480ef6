package process

import (
	"time"

	"github.com/fencepost/fencepost/simulations/history"
)

// The test writes one setup and then orders to a writer's standard input, the
// writer events to its standard output: a JSON value a line each. What it does
// goes into a file, as package history reports it.

// A writer's descriptors from 3 on.
const (
	reportFile = 3
	worldPipe  = 4
)

// setup is what a writer needs to know.
type setup struct {
	Name    string // "A" or "B"
	Subject string
	Conf    string
	Twin    bool
}

// order is one unit of work.
type order struct {
	Pause Pause         `json:",omitempty"`
	Step  string        `json:",omitempty"` // stop there; empty: nowhere
	Nth   int           `json:",omitempty"` // the how manieth of that name
	After time.Duration `json:",omitempty"` // stop then; zero: never
}

// wake ends a pause that SIGCONT alone does not end.
type wake struct{}

type kind string

const (
	ready    kind = "ready"    // waits for orders
	stopping kind = "stopping" // is about to stand
	woke     kind = "woke"     // runs again, of a stop-the-world
	answered kind = "answered" // its unit is over
	failed   kind = "failed"   // could not come to its unit: Text
)

// event is what a writer reports, by the clock of the machine.
type event struct {
	Kind kind
	At   time.Time
	Text string `json:",omitempty"`

	// Of an answered unit:
	Outcome history.Outcome `json:",omitempty"`
	Number  int64           `json:",omitempty"`
	Wrote   time.Time       // when its last write began
	Steps   []string        `json:",omitempty"`
}
