package history

import "errors"

// Check judges h by all rules and returns the violations it found, at most one for each
// rule and resource. It returns nil and nil if h breaks no rule as far as its ops show.
// It takes O(n log n) and does not change h.
//
// If h is malformed, the error names the op, or says that a limit is below zero.
//
// Check accuses no correct history. If Began is earlier than the truth, Ended is later,
// or an outcome is Unknown, Check can only miss a violation.
func Check(h History) ([]Violation, error) {
	return CheckOnly(h, func(Rule) bool { return true })
}

// CheckOnly is [Check] with only those rules for which wanted returns true. A test whose
// lock is known to lose its memory leaves out the rules of the lock.
func CheckOnly(h History, wanted func(Rule) bool) ([]Violation, error) {
	if err := h.check(); err != nil {
		return nil, err
	}
	var found []Violation
	for _, s := range stories(h) {
		s.fill()
		for _, j := range judges {
			if !wanted(j.rule) {
				continue
			}
			if v := j.judge(s); v != nil {
				v.Rule, v.Resource = j.rule, s.resource
				found = append(found, *v)
			}
		}
	}
	return found, nil
}

func (h *History) check() error {
	if h.TTL < 0 || h.Bound < 0 || h.Slack < 0 {
		return errors.New("history: a limit is below zero")
	}
	for i := range h.Ops {
		if err := h.Ops[i].Check(); err != nil {
			return err
		}
	}
	return nil
}

// Place is the part of the system that a rule binds.
type Place string

// The places.
const (
	AtResource Place = "resource" // the guard and the user's code
	AtLock     Place = "lock"     // the issuer
	AtProgress Place = "progress" // both: work continues
)

// Rule is a rule that every correct history keeps. Code, docs and verdicts use its ID.
type Rule struct {
	ID    string
	At    Place
	Words string // the rule as a sentence
}

// String returns the id.
func (r Rule) String() string { return r.ID }

// Rules lists all rules, in the order in which [Check] judges them.
func Rules() []Rule {
	all := make([]Rule, len(judges))
	for i, j := range judges {
		all[i] = j.rule
	}
	return all
}

// A judge returns nil if its rule is kept.
type judge struct {
	rule  Rule
	judge func(*story) *Violation
}

var judges = []judge{
	{Rule{"order", AtResource, "No write is accepted below one that was accepted before it began."}, order},
	{Rule{"holder", AtResource, "A number is accepted from one holder only."}, holder},
	{Rule{"once", AtResource, "Every acknowledged unit is counted exactly once, however often it was tried, and nothing else is."}, once},
	{Rule{"spurious-refusal", AtResource, "Nothing is refused unless a greater number was given out, or the same number to another holder."}, spuriousRefusal},
	{Rule{"mark", AtResource, "A mark never falls: none is read, and nothing admitted, below what the guard had admitted or refused by."}, mark},
	{Rule{"trace", AtResource, "What was refused, or failed, leaves no trace."}, trace},
	{Rule{"versions", AtResource, "Each accepted write makes the version after the one it read: no gaps, no duplicates, in the order of numbers and of time."}, versions},
	{Rule{"numbers", AtLock, "Each grant has a number of its own, greater than that of any grant that ended before it began."}, numbers},
	{Rule{"owner", AtLock, "Only the holder renews and releases."}, owner},
	{Rule{"mutual-exclusion", AtLock, "At any time one holder has an unexpired lease."}, mutualExclusion},
	{Rule{"number-reuse", AtLock, "The number of a grant whose answer was lost is given to no other holder."}, numberReuse},
	{Rule{"liveness", AtProgress, "A writer that asks after the last fault sees a write within twice the ttl."}, liveness},
	{Rule{"bounded-blocking", AtProgress, "A paused holder blocks other work no longer than the bound."}, boundedBlocking},
}
