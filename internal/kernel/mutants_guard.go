package kernel

import (
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
			s.under(q, (*store).admit, answer, func() { answer(s.apply(q)) })
		}
	}},
	{"check, then write", func(l *laws) {
		l.write = func(s *store, q *request, answer func(reply)) {
			s.under(q, (*store).admit, answer, func() { s.after(s.w.upTo(ttl), func() { answer(s.apply(q)) }) })
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
			s.under(q, (*store).admit, answer, func() { answer(l.apply(s, q)) })
		}
	}},
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
