package simulate

import "time"

// Kind says what happened.
type Kind string

// What writers report, in the order of a round; Stopped and Continued are
// reported by the parent.
const (
	Ready     Kind = "ready"     // connected, waiting for orders
	Asks      Kind = "asks"      // asks for the lock
	Holds     Kind = "holds"     // was granted it: Number
	Claims    Kind = "claims"    // raised the mark to its token
	Reads     Kind = "reads"     // Balance
	Checked   Kind = "checked"   // was told that it may write
	Pauses    Kind = "pauses"    // will be stopped before its next step
	Stopped   Kind = "stopped"   // does not run any more
	Continued Kind = "continued" // runs again
	Accepted  Kind = "accepted"  // its write of Balance was acknowledged
	Refused   Kind = "refused"   // its write of Balance was refused as stale: Text
	Failed    Kind = "failed"    // could not do its part: Text
)

// Event is one step of one writer, at the time it happened by the clock of the
// machine, which all processes share.
type Event struct {
	At      time.Time
	Writer  string // "A" or "B"
	Kind    Kind
	Number  int64  `json:",omitempty"`
	Balance int64  `json:",omitempty"`
	Text    string `json:",omitempty"`
}
