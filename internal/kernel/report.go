package kernel

// Report is what many runs come to. Each seed is played twice: guarded, and as
// the control, in which nothing is refused.
type Report struct {
	Schedules         uint64 `json:"schedules"`
	Violations        uint64 `json:"violations"`         // runs that broke a rule
	ControlViolations uint64 `json:"control_violations"` // the same of the control
	Seed              uint64 `json:"seed"`               // the first
	Acknowledged      uint64 `json:"acknowledged"`       // units of work, guarded
	Lost              uint64 `json:"lost"`               // applied and overwritten, guarded
	ControlLost       uint64 `json:"control_lost"`

	// The least seeds that broke a rule, or guarded lost something; 0: there is none.
	Broken        uint64 `json:"broken_seed,omitempty"`
	ControlBroken uint64 `json:"control_broken_seed,omitempty"`
}

// Proven reports whether the guard was broken never, and the control sometimes.
func (r *Report) Proven() bool { return r.Violations+r.Lost == 0 && r.ControlViolations > 0 }

func count(violations, least uint64, run Run) (uint64, uint64) {
	if len(run.Violations) == 0 {
		return violations, least
	}
	return violations + 1, lower(least, run.Seed)
}

// add adds what others have counted.
func (r *Report) add(part Report) {
	r.Schedules += part.Schedules
	r.Violations += part.Violations
	r.ControlViolations += part.ControlViolations
	r.Acknowledged += part.Acknowledged
	r.Lost += part.Lost
	r.ControlLost += part.ControlLost
	r.Broken = lower(r.Broken, part.Broken)
	r.ControlBroken = lower(r.ControlBroken, part.ControlBroken)
}

// lower is the lesser of two seeds, of which 0 is none.
func lower(a, b uint64) uint64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
