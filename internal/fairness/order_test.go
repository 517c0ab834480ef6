package fairness_test

import "time"

// order is what a process is told: first whose turns to take, then to stop.
type order struct {
	Issuer  string // a key of issuers
	URL     string
	Space   string // its prefix or schema
	Process string
	Waiters int
	TTL     time.Duration
	Work    time.Duration // of each turn
	Polls   bool          // do not stand in line
	Stop    bool
}

// turn is one waiter's, on the clock of the machine. It is told when it begins,
// with Done zero, and when it ends.
type turn struct {
	Waiter string
	Asked  int64 // in ns
	Got    int64 // zero where it waited to the end
	Done   int64
	Number int64
	// Lost says that the lease had ended by itself before Done.
	Lost bool
	// Ready and Over are said by the process, once each.
	Ready, Over bool
	Failure     string // of a Hold
}
