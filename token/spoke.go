package token

import "github.com/fencepost/fencepost/internal/tenure"

const off = -1 // the place of a lease that is on no wheel

// spoke is a lease's place on its wheel. Times count from the wheel's epoch.
type spoke struct {
	tenure.Span
	place   int           // in the heap
	renewal chan struct{} // closed when the last renewal was answered
	err     error         // the last failure's
}

// spokes are a heap: what is to be done first is in front.
type spokes []*lease

func (s spokes) Len() int           { return len(s) }
func (s spokes) Less(i, j int) bool { return s[i].spoke.Next < s[j].spoke.Next }

func (s spokes) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].spoke.place, s[j].spoke.place = i, j
}

// Push implements [heap.Interface].
func (s *spokes) Push(x any) {
	l := x.(*lease)
	l.spoke.place = len(*s)
	*s = append(*s, l)
}

// Pop implements [heap.Interface].
func (s *spokes) Pop() any {
	old := *s
	l := old[len(old)-1]
	old[len(old)-1], *s = nil, old[:len(old)-1]
	l.spoke.place = off
	return l
}
