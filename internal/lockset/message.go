package lockset

import "time"

// The parent writes one setup and then orders to a worker's standard input, the
// worker events to its standard output: a JSON value a line each.

// setup is what a worker needs to know of a run.
type setup struct {
	Run      string // is in the name of each set
	Name     string // of the worker
	Index    int    // its values are Index, Index+Of, Index+2·Of …
	Of       int    // workers
	Ways     []Way
	Redis    string
	Prefix   string
	Postgres string
	Schema   string
	TTL      time.Duration
	Work     time.Duration
	Idle     time.Duration
	Seed     uint64

	// What a test forces: the worker ends after so many additions in each way,
	// and stops itself in each.
	Additions int
	Stand     step
}

// step is where a worker stops itself.
type step string

const (
	atWork  step = "work"  // after its read
	atWrite step = "write" // after its check, where it has one
)

type order string

const (
	begin order = "begin"
	quit  order = "quit" // takes up nothing more, and ends what it has begun
)

// kind says what a worker reports.
type kind string

const (
	ready    kind = "ready"    // waits for begin
	begun    kind = "begun"    // holds the lock and begins to add Value
	answered kind = "answered" // Value: Answer
	trouble  kind = "trouble"  // could not even begin: Text
	done     kind = "done"     // says no more
)

// answer is what a worker was told of an addition.
type answer string

const (
	acknowledged answer = "acknowledged"
	refused      answer = "refused" // as stale, or by the check
	failed       answer = "failed"  // for another reason, with nothing written
	unknown      answer = "unknown" // or not told at all
)

type event struct {
	Kind   kind
	Way    Way    `json:",omitempty"`
	Value  int64  `json:",omitempty"`
	Answer answer `json:",omitempty"`
	Text   string `json:",omitempty"`
}
