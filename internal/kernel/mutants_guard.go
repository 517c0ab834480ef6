package kernel

import (
	"slices"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

var guardMutants = []mistake{
	{"no guard", func(l *laws) { l.admit = func(*store, int, token.Token) error { return nil } }},
	{"equality", admits(func(mark guard.Mark, tok token.Token) bool {
		return mark.Number == 0 || tok.Number == mark.Number
	})},
	{"strict less-than", admits(func(mark guard.Mark, tok token.Token) bool { return mark.Number < tok.Number })},
	{"less-or-equal without the holder", admits(func(mark guard.Mark, tok token.Token) bool { return mark.Number <= tok.Number })},
	{"empty holder as peer", func(l *laws) {
		admits(func(mark guard.Mark, tok token.Token) bool {
			return mark.Number < tok.Number || mark.Number == tok.Number && mark.Holder == ""
		})(l)
		raised := l.raised
		l.raised = func(mark guard.Mark, tok token.Token) (guard.Mark, error) {
			mark, err := raised(mark, tok)
			mark.Holder = "" // as a column that came later
			return mark, err
		}
	}},
	{"claim sets the mark", func(l *laws) {
		l.admit = func(s *store, r int, tok token.Token) error { s.marks[r] = markOf(tok); return nil }
		l.write = func(s *store, q *request, answer func(reply)) {
			if err := s.admit(q.resource, q.tok); err != nil {
				answer(reply{err: err})
				return
			}
			answer(s.apply(q))
		}
	}},
	{"check, then write", func(l *laws) {
		l.write = func(s *store, q *request, answer func(reply)) {
			if err := s.admit(q.resource, q.tok); err != nil {
				answer(reply{err: err})
				return
			}
			s.after(s.w.upTo(ttl), func() { answer(s.apply(q)) })
		}
	}},
	{"write, then raise", func(l *laws) {
		l.admit = func(s *store, r int, tok token.Token) error {
			err := s.mark(r).Admits(tok)
			s.after(s.w.upTo(ttl/10), func() { _ = s.admit(r, tok) })
			return err
		}
	}},
	{"write, then check", func(l *laws) {
		l.write = func(s *store, q *request, answer func(reply)) {
			r := s.apply(q)
			if err := s.admit(q.resource, q.tok); err != nil {
				r = reply{err: err}
			}
			answer(r)
		}
	}},
	{"duplicate applied twice", func(l *laws) {
		l.apply = func(s *store, q *request) reply {
			u := &s.w.units[q.task.unit]
			s.put(q, u)
			return u.reply()
		}
		l.write = func(s *store, q *request, answer func(reply)) {
			if err := s.admit(q.resource, q.tok); err != nil {
				answer(reply{err: err})
				return
			}
			answer(l.apply(s, q))
		}
	}},
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

func markOf(tok token.Token) guard.Mark { return guard.Mark{Number: tok.Number, Holder: tok.Holder} }

// admits puts another rule in the place of the guard's.
func admits(rule func(guard.Mark, token.Token) bool) func(*laws) {
	return func(l *laws) {
		l.raised = func(mark guard.Mark, tok token.Token) (guard.Mark, error) {
			if rule(mark, tok) {
				return markOf(tok), nil
			}
			return mark, &guard.StaleError{Token: tok, Mark: mark}
		}
	}
}
