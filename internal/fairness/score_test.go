package fairness_test

import (
	"cmp"
	"slices"
)

// score is what the turns came to.
type score struct {
	turns []turn           // that were granted, in their order
	waits []turn           // all that were asked for, and are known to have ended
	by    map[string][]int // each waiter's, as places in turns

	atOnce int // so many waiters
}

func newScore(said []turn, atOnce int) *score {
	s := &score{by: map[string][]int{}, atOnce: atOnce}
	done := map[int64]bool{}
	for _, t := range said {
		if t.Done > 0 {
			done[t.Number] = true
		}
	}
	for _, t := range said {
		if t.Got == 0 || t.Done > 0 || !done[t.Number] { // of a killed one the beginning
			s.waits = append(s.waits, t)
			if t.Got > 0 {
				s.turns = append(s.turns, t)
			}
		}
	}
	slices.SortFunc(s.turns, func(a, b turn) int { return cmp.Compare(a.Got, b.Got) })
	for i, t := range s.turns {
		s.by[t.Waiter] = append(s.by[t.Waiter], i)
	}
	return s
}

// overlaps counts turns that began before the one before them was over. Who lost
// the lease was told so: that turn was over by then.
func (s *score) overlaps() (n int) {
	var until int64
	for _, t := range s.turns {
		if t.Got < until {
			n++
		}
		if !t.Lost {
			until = max(until, t.Done)
		}
	}
	return n
}

// falls counts turns whose number is not above that of the one before.
func (s *score) falls() (n int) {
	var top int64
	for _, t := range s.turns {
		if t.Number <= top {
			n++
		}
		top = max(top, t.Number)
	}
	return n
}

// before counts the turns that began before then.
func (s *score) before(then int64) int {
	n, _ := slices.BinarySearchFunc(s.turns, then, func(t turn, then int64) int { return cmp.Compare(t.Got, then) })
	return n
}
