package kernel

import (
	"fmt"
	"strings"
)

// Faults is a set of what may go wrong.
type Faults uint32

// What may go wrong.
const (
	Pause     Faults = 1 << iota // a holder stands still and wakes up
	Suspend                      // and so does its clock
	Crash                        // a holder dies; another takes its place
	Delay                        // messages are slow
	Lose                         // messages are lost
	Duplicate                    // messages arrive twice
	Reorder                      // single messages arrive much later than others
	Cut                          // nothing gets through from one to another: one way
	Clock                        // a server's clock jumps, ahead or back
	Restart                      // a server is away for a while, and keeps its memory
	Forget                       // the lock is away for a while, and has lost its memory
	Promote                      // a replica that is behind takes the lock's place
	Retry                        // a proxy sends a request again
	Overrun                      // work goes on after the most that its lease may last
	every     = iota

	// All is everything.
	All = 1<<every - 1
)

var faultNames = [every]string{
	"pause", "suspend", "crash", "delay", "lose", "duplicate", "reorder", "cut", "clock", "restart", "forget", "promote", "retry", "overrun",
}

// FaultNames lists all of them, as [ParseFaults] takes them.
func FaultNames() []string { return faultNames[:] }

// ParseFaults takes names; no names are no faults.
func ParseFaults(names []string) (Faults, error) {
	var all Faults
next:
	for _, name := range names {
		for i, known := range faultNames {
			if name == known {
				all |= 1 << i
				continue next
			}
		}
		return 0, fmt.Errorf("kernel: no fault is named %q; there are %s", name, strings.Join(faultNames[:], ", "))
	}
	return all, nil
}

// String returns the names, as [ParseFaults] takes them apart.
func (f Faults) String() string {
	var names []string
	for i, name := range faultNames {
		if f.has(1 << i) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

func (f Faults) has(one Faults) bool { return f&one != 0 }

// ofMessages are the faults that single messages meet with, for as long as there
// is trouble.
const ofMessages = Delay | Lose | Duplicate | Reorder | Retry

// dishonest are the faults by which a lock comes to break its own promises.
const dishonest = Clock | Forget | Promote

// some leaves about half of faults out: what is rare among all is common among
// few. (Groce et al., Swarm Testing, ISSTA 2012.) In every other run the lock is
// honest, so that its own rules are judged.
func (w *world) some(faults Faults) Faults {
	faults &= Faults(w.draw.Uint32())
	if w.flip() {
		faults &^= dishonest
	}
	return faults
}
