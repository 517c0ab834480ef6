package doctor

// Verdict is what came of one check.
type Verdict string

// The verdicts.
const (
	Pass    Verdict = "pass"    // as it should be
	Warn    Verdict = "warn"    // it works, within bounds that one should know
	Fail    Verdict = "fail"    // numbers can fall, or locks vanish
	Unknown Verdict = "unknown" // the server does not tell
)

// Finding is one check of one server.
type Finding struct {
	Check    string  `json:"check"`
	Verdict  Verdict `json:"verdict"`
	Evidence string  `json:"evidence"`         // what the server said, or why it said nothing
	Why      string  `json:"why"`              // what depends on it
	Hazard   string  `json:"hazard,omitempty"` // its id in docs/hazards.md
	Fix      string  `json:"fix,omitempty"`    // a statement or a setting; empty where nothing is wrong
}

// Report is what one server was found to be.
type Report struct {
	Server   string    `json:"server"` // without a password
	Findings []Finding `json:"findings"`
}

// Count returns how many findings have that verdict.
func (r *Report) Count(v Verdict) (n int) {
	for _, f := range r.Findings {
		if f.Verdict == v {
			n++
		}
	}
	return n
}
