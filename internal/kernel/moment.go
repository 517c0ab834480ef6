package kernel

import "time"

// clock is what it measures leases with.
func (p *process) clock() time.Duration { return p.w.now - p.stood }

// moment is a time on a process's own clock, and for how long that had stood by
// then.
type moment struct{ at, stood time.Duration }

func (p *process) moment() moment { return moment{p.clock(), p.stood} }

// shown is what the world's clock shows when one shows t that has not stood since.
func (m moment) shown(t time.Duration) time.Duration { return t + m.stood }
