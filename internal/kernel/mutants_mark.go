package kernel

import (
	"slices"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// markMutants are mistakes of where the guard keeps its marks.
var markMutants = []mistake{
	{"mark forgotten in a restart", func(l *laws) { l.awaken = func(s *store) { clear(s.marks) } }},
	{"mark not flushed before a restart", func(l *laws) {
		var flushed []guard.Mark
		l.admit = func(s *store, r int, tok token.Token) error {
			flushed = slices.Clone(s.marks)
			return s.admit(r, tok)
		}
		l.awaken = func(s *store) { copy(s.marks, flushed) }
	}},
	{"mark deleted with the row", func(l *laws) {
		l.apply = func(s *store, q *request) reply {
			if q.task.unit%3 == 0 {
				s.marks[q.resource] = guard.Mark{}
			}
			return s.apply(q)
		}
	}},
	{"mark in an LRU", func(l *laws) {
		l.admit = func(s *store, r int, tok token.Token) error {
			err := s.admit(r, tok)
			for other := range s.marks {
				if other != r {
					s.marks[other] = guard.Mark{}
				}
			}
			return err
		}
	}},
	{"prune without floor", func(l *laws) {
		l.prune = func(s *store, cutoff int64) { s.forget(cutoff) }
	}},
	{"floor after the prune", func(l *laws) {
		l.prune = func(s *store, cutoff int64) {
			s.forget(cutoff)
			s.after(ttl, func() { s.floor = max(s.floor, cutoff) })
		}
	}},
}

// forget deletes the marks below cutoff, and nothing else.
func (s *store) forget(cutoff int64) {
	for r := range s.marks {
		if s.marks[r].Number < cutoff {
			s.marks[r] = guard.Mark{}
		}
	}
}
