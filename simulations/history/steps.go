package history

import (
	"slices"
	"sort"
	"time"
)

// steps is what reads say about a count that rises by one at a time, from 0:
// step k, at which it rises to k, is at low[k] or later, since until then a read
// saw less, and at high[k] or sooner, since by then a read saw k or more.
type steps struct {
	top       int // the last step that a read saw
	low, high []stamp
}

// stamp is a limit, and the read that sets it, or nil.
type stamp struct {
	at   time.Duration
	read *Op
}

// newSteps needs reads of which none is below 0, and none lower than one that
// ended before it began. Steps beyond limit are all alike, and are one.
func newSteps(reads []*Op, limit int) *steps {
	s := &steps{}
	for _, read := range reads {
		s.top = max(s.top, min(read.Counted, limit))
	}
	s.low = slices.Repeat([]stamp{{at: -never}}, s.top+2)
	s.high = slices.Repeat([]stamp{{at: never}}, s.top+2)
	for _, read := range reads {
		k := min(read.Counted, s.top)
		if low := &s.low[k+1]; read.Began > low.at {
			*low = stamp{read.Began, read}
		}
		if high := &s.high[k]; read.Ended < high.at {
			*high = stamp{read.Ended, read}
		}
	}
	s.spread()
	return s
}

// spread makes what is known of a step known of those after, or before, it.
func (s *steps) spread() {
	for k := 1; k < len(s.low); k++ {
		if s.low[k-1].at > s.low[k].at {
			s.low[k] = s.low[k-1]
		}
	}
	for k := len(s.high) - 2; k >= 0; k-- {
		if s.high[k+1].at < s.high[k].at {
			s.high[k] = s.high[k+1]
		}
	}
}

// span is a unit and the steps that it may have been: first to last, none if
// first is greater. The step after the top stands for all that no read saw.
type span struct {
	op          *Op
	first, last int
}

func (s *steps) span(op *Op) span {
	ended := mayEnd(op)
	if undone(op) {
		ended = never // it promised nothing true
	}
	return span{
		op:    op,
		first: 1 + sort.Search(s.top, func(i int) bool { return s.high[i+1].at >= op.Began }),
		last:  sort.Search(s.top+1, func(i int) bool { return s.low[i+1].at > ended }),
	}
}
