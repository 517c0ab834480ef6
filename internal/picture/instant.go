package picture

import (
	"slices"
	"time"
)

// bound finds the first and the last instant.
func (f *figure) bound() {
	f.from = f.shown[0].Began
	for _, op := range f.shown {
		f.to = max(f.to, op.Ended)
	}
	f.to = max(f.to, f.from)
}

// hold takes the leases under which something is shown.
func (f *figure) hold() {
	known := map[int64]bool{}
	for _, op := range f.shown {
		known[op.Number] = true
	}
	for _, l := range f.story.leases {
		if known[l.number] && f.laneOf[l.writer] != nil && l.from <= f.to && l.until > f.from {
			f.held = append(f.held, l)
		}
	}
}

// instants are all that have a place, each once, and one more at the end.
func (f *figure) instants() []time.Duration {
	var all []time.Duration
	for _, op := range f.shown {
		all = append(all, op.Began, op.Ended)
	}
	for _, l := range f.held {
		if l.until <= f.to {
			all = append(all, l.until)
		}
	}
	slices.Sort(all)
	return append(slices.Compact(all), f.to+1)
}

// known are the numbers that the figure names.
func (f *figure) known() []int64 {
	var all []int64
	for _, op := range f.shown {
		all = append(all, op.Number)
	}
	for _, l := range f.held {
		all = append(all, l.number)
	}
	return all
}
