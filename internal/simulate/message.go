package simulate

import "time"

// The parent writes one setup and then orders to a writer's standard input, the
// writer events to its standard output: a JSON value a line each. URLs go this
// way, not as arguments, since anybody can read those.

// setup is what a writer needs to know of a run.
type setup struct {
	Name     string // of the writer
	TTL      time.Duration
	Pause    Pause
	Redis    string // URL
	Prefix   string // of all keys
	Postgres string // URL; empty: SQLite
	Schema   string // of all tables in Postgres
	SQLite   string // path of the file
}

// order is one unit of work: add Amount to the account that Resource names.
type order struct {
	Way      Way
	Resource string
	Amount   int64
	Stop     bool // before the write
}

// wake ends a pause that SIGCONT alone does not end.
type wake struct{}
