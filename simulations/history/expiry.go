package history

import (
	"slices"
	"sort"
	"time"
)

// expiries say until when a number can have been admitted: until something
// greater was at the mark.
type expiries struct {
	rising []*Op           // what was at the mark, by number
	ended  []time.Duration // the first end of it and all after it
}

func (s *story) expiries() expiries {
	e := expiries{rising: sorted(slices.Concat(s.accepted, s.marks), byNumber)}
	e.ended = make([]time.Duration, len(e.rising)+1)
	e.ended[len(e.rising)] = never
	for i := len(e.rising) - 1; i >= 0; i-- {
		e.ended[i] = min(e.ended[i+1], e.rising[i].Ended)
	}
	return e
}

func (e expiries) of(op *Op) time.Duration {
	if op.Number == 0 {
		return never
	}
	return e.ended[sort.Search(len(e.rising), func(i int) bool { return e.rising[i].Number > op.Number })]
}
