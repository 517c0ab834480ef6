package acknowledged_test

import "time"

// order is what a process is told: first what to do, then to stop.
type order struct {
	Process  int
	Redis    string // URL
	Prefix   string
	Postgres string // URL
	Schema   string
	Rows     int  // of each way with each issuer
	Twin     bool // guards that observe
	Sleeps   int  // one write in so many sleeps through the loss of its lock
	Seed     uint64
	Stop     bool
}

// said is what a process says: that it is ready, of each write that was
// acknowledged its row, and that it is over.
type said struct {
	Ready, Over  bool   `json:",omitzero"`
	Acknowledged string `json:",omitzero"`
}

// reportFile is where a process writes its history.
const reportFile = 3

const (
	// mostUnits are done under one lock.
	mostUnits = 20
	// oneGivesUp of so many writers, in the middle of its write.
	oneGivesUp = 50
	// mostWork is how long the work between read and write takes at most.
	mostWork = 2 * time.Millisecond
)
