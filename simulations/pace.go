package simulations

import "time"

// pace is how long a writer that does not move is waited for: it may be slow,
// or wait for one who sleeps.
type pace struct {
	normal    time.Duration // what a whole Hold takes that nobody disturbs
	limit     time.Duration // what a sleeper may keep others waiting; zero: nobody looks
	isBlocked bool          // somebody has been seen to wait here
}

// bound is how long whoever may wait for a sleeper is waited for: longer than
// the rule allows, also if its work begins somewhat later than it does.
func (p pace) bound() time.Duration {
	if p.limit > 0 && !p.isBlocked {
		return p.limit + slack + slack/10
	}
	return p.short()
}

// short is how long those are waited for who wait for nobody asleep.
func (p pace) short() time.Duration {
	if p.isBlocked {
		return max(20*time.Millisecond, 4*p.normal)
	}
	return max(250*time.Millisecond, 20*p.normal)
}
