package fairness_test

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// jain is Jain's index of the waiters' numbers of turns: 1 where all have the
// same, 1/n where one has them all (Jain, Chiu, Hawe 1984). It counts from when
// the last of them had its first turn: until then some had the lock to themselves.
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

// passedOver is how many turns others had, at most, while one of waiters waited.
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

// longest is the longest wait of one of waiters.
func (s *score) longest(waiters []string) (longest time.Duration) {
	for _, t := range s.turns {
		if !slices.Contains(waiters, t.Waiter) {
			continue
		}
		longest = max(longest, time.Duration(t.Got-t.Asked))
	}
	return longest
}

// mean is how long a turn takes, from one's beginning to the next one's.
func (s *score) mean() time.Duration {
	return time.Duration(s.turns[len(s.turns)-1].Got-s.turns[0].Got) / time.Duration(len(s.turns)-1)
}

// fair is how long a waiter waits where all have the same: a turn of each who
// waits at the same time.
func (s *score) fair() time.Duration { return time.Duration(s.atOnce) * s.mean() }

// waiters are those of processes with such names, in order.
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

// about says what the turns came to for some waiters.
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
