package fairness_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// score evaluates the turns.
type score struct {
	turns []turn           // granted turns, in order
	waits []turn           // all requested turns that are known to have ended
	by    map[string][]int // each waiter's turns, as indexes of turns

	atOnce int // number of waiters
}

func newScore(sent []turn, atOnce int) *score {
	s := &score{by: map[string][]int{}, atOnce: atOnce}
	done := map[int64]bool{}
	for _, t := range sent {
		if t.Done > 0 {
			done[t.Number] = true
		}
	}
	for _, t := range sent {
		if t.Got == 0 || t.Done > 0 || !done[t.Number] { // keeps the beginning of a killed process's turn
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

// overlaps counts turns that began before the turn before them had ended. A holder that
// lost the lease has seen its context end: its turn had ended by then.
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

// falls counts turns whose number is not above the number of the turn before.
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

// jain returns Jain's index of the waiters' numbers of turns: 1 if all have the same
// number, 1/n if one has all turns (Jain, Chiu, Hawe 1984). It counts from the first turn
// of the last waiter: until then some waiters had no competition.
func (s *score) jain(waiters []string) float64 {
	from := 0
	for _, w := range waiters {
		from = max(from, s.by[w][0])
	}
	var sum, squares float64
	for _, w := range waiters {
		first, _ := slices.BinarySearch(s.by[w], from)
		n := float64(len(s.by[w]) - first)
		sum, squares = sum+n, squares+n*n
	}
	return sum * sum / (float64(len(waiters)) * squares)
}

// passedOver returns the greatest number of turns of others while one of waiters waited.
func (s *score) passedOver(waiters []string) (most int) {
	for _, w := range s.waits {
		if !slices.Contains(waiters, w.Waiter) {
			continue
		}
		until := len(s.turns)
		if w.Got > 0 {
			until = s.before(w.Got)
		}
		most = max(most, until-s.before(w.Asked+1))
	}
	return most
}

// late returns how late the timers of a process were, at most.
func (s *score) late() (most time.Duration) {
	for _, t := range s.waits {
		most = max(most, t.Late)
	}
	return most
}

// longest returns the longest wait of one of waiters.
func (s *score) longest(waiters []string) (longest time.Duration) {
	for _, t := range s.turns {
		if !slices.Contains(waiters, t.Waiter) {
			continue
		}
		longest = max(longest, time.Duration(t.Got-t.Asked))
	}
	return longest
}

// mean returns the mean time from the beginning of a turn to the beginning of the next.
func (s *score) mean() time.Duration {
	return time.Duration(s.turns[len(s.turns)-1].Got-s.turns[0].Got) / time.Duration(len(s.turns)-1)
}

// fair returns how long a waiter waits if all have equal turns: one turn of each waiter
// that waits at the same time.
func (s *score) fair() time.Duration { return time.Duration(s.atOnce) * s.mean() }

// waiters returns the waiters of the processes for which of returns true, in order.
func (s *score) waiters(of func(process string) bool) (names []string) {
	seen := map[string]bool{}
	for _, t := range s.waits {
		if process, _, _ := strings.Cut(t.Waiter, "/"); of(process) && !seen[t.Waiter] {
			seen[t.Waiter] = true
			names = append(names, t.Waiter)
		}
	}
	slices.Sort(names)
	return names
}

// about summarizes the turns of some waiters.
func (s *score) about(waiters []string) string {
	lost, killed := 0, 0
	for _, t := range s.turns {
		if t.Lost {
			lost++
		}
		if t.Done == 0 {
			killed++
		}
	}
	return fmt.Sprintf("%d turns, %v each, %d of killed holders, %d lost; of these %d waiters: "+
		"Jain %.4f; longest wait %v, or %.2f fair shares; passed over by %d turns at most",
		len(s.turns), s.mean().Round(10*time.Microsecond), killed, lost, len(waiters), s.jain(waiters),
		s.longest(waiters).Round(time.Millisecond), float64(s.longest(waiters))/float64(s.fair()), s.passedOver(waiters))
}
