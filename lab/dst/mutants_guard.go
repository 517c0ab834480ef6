package dst

import (
	"slices"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard/signature"
	"github.com/fencepost/fencepost/token"
)

var guardMutants = []mistake{
	{"no guard", func(l *decisions) { l.admit = func(*store, int, token.Token) error { return nil } }},
	{"equality", admits(func(mark guard.Mark, tok token.Token) bool {
		return mark.Number == 0 || tok.Number == mark.Number
	})},
	{"strict less-than", admits(func(mark guard.Mark, tok token.Token) bool { return mark.Number < tok.Number })},
	{"less-or-equal without the holder", admits(func(mark guard.Mark, tok token.Token) bool { return mark.Number <= tok.Number })},
	{"empty holder as peer", func(l *decisions) {
		admits(func(mark guard.Mark, tok token.Token) bool {
			return mark.Number < tok.Number || mark.Number == tok.Number && mark.Holder == ""
		})(l)
		raised := l.raised
		l.raised = func(mark guard.Mark, tok token.Token) (guard.Mark, error) {
			mark, err := raised(mark, tok)
			mark.Holder = "" // as in a column that was added later
			return mark, err
		}
	}},
	{"claim sets the mark", func(l *decisions) {
		l.admit = func(s *store, r int, tok token.Token) error { s.marks[r] = markOf(tok); return nil }
		l.write = func(s *store, q *request, answer func(reply)) {
			s.under(q, (*store).admit, answer, func() { answer(s.apply(q)) })
		}
	}},
	{"check, then write", func(l *decisions) {
		l.write = func(s *store, q *request, answer func(reply)) {
			s.under(q, (*store).admit, answer, func() { s.after(s.w.upTo(ttl), func() { answer(s.apply(q)) }) })
		}
	}},
	{"write, then raise", func(l *decisions) {
		l.admit = func(s *store, r int, tok token.Token) error {
			err := s.mark(r).Admits(tok)
			s.after(s.w.upTo(ttl/10), func() { _ = s.admit(r, tok) })
			return err
		}
	}},
	{"write, then check", func(l *decisions) {
		l.write = func(s *store, q *request, answer func(reply)) {
			r := s.apply(q)
			if err := s.admit(q.resource, q.tok); err != nil {
				r = reply{err: err}
			}
			answer(r)
		}
	}},
	{"duplicate applied twice", func(l *decisions) {
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

// admits replaces the guard's rule by another rule.
func admits(rule func(guard.Mark, token.Token) bool) func(*decisions) {
	return func(l *decisions) {
		l.raised = func(mark guard.Mark, tok token.Token) (guard.Mark, error) {
			if rule(mark, tok) {
				return markOf(tok), nil
			}
			return mark, &guard.StaleError{Token: tok, Mark: mark}
		}
	}
}

// markMutants are mistakes in how the guard stores its marks.
var markMutants = []mistake{
	{"mark forgotten in a restart", func(l *decisions) { l.afterStoreRestart = func(s *store) { clear(s.marks) } }},
	{"mark not flushed before a restart", func(l *decisions) {
		var flushed []guard.Mark
		l.admit = func(s *store, r int, tok token.Token) error {
			flushed = slices.Clone(s.marks)
			return s.admit(r, tok)
		}
		l.afterStoreRestart = func(s *store) { copy(s.marks, flushed) }
	}},
	{"mark deleted with the row", func(l *decisions) {
		l.apply = func(s *store, q *request) reply {
			if q.task.unit%3 == 0 {
				s.marks[q.resource] = guard.Mark{}
			}
			return s.apply(q)
		}
	}},
	{"mark in an LRU", func(l *decisions) {
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
	{"prune without floor", func(l *decisions) {
		l.prune = func(s *store, cutoff int64) { s.forget(cutoff) }
	}},
	{"floor after the prune", func(l *decisions) {
		l.prune = func(s *store, cutoff int64) {
			s.forget(cutoff)
			s.after(ttl, func() { s.floor = max(s.floor, cutoff) })
		}
	}},
}

// forget deletes the marks below cutoff, without raising the floor.
func (s *store) forget(cutoff int64) {
	for r := range s.marks {
		if s.marks[r].Number < cutoff {
			s.marks[r] = guard.Mark{}
		}
	}
}

var serviceMutants = []mistake{
	{"signature not verified", func(l *decisions) { l.verify = func(*signature.Keyring, signature.Signed) error { return nil } }},
	{"in-flight table not entered", func(l *decisions) { l.serve = (*serviceRequest).admit }},
	{"store asked before the in-flight table", func(l *decisions) {
		l.serve = func(v *serviceRequest) {
			if v.request.task == nil {
				v.serve()
				return
			}
			store := v.w.store
			if err := store.admit(v.request.resource, v.request.tok); err != nil {
				v.end(reply{err: err})
				return
			}
			store.after(v.takes(), func() { v.enter(v.handle) })
		}
	}},
	{"slot freed before the handler has returned", func(l *decisions) {
		l.serve = func(v *serviceRequest) {
			v.enter(func() {
				v.admit()
				v.queue().Leave(&v.slot)
			})
		}
	}},
	{"request that has waited too long runs", func(l *decisions) { l.timedOut = (*serviceRequest).admit }},
	{"told to go is answered as refused", func(l *decisions) {
		l.cancel = func(older *serviceRequest) { older.answer(reply{err: errOvertaken}) }
	}},
	{"marks out of reach are taken for admitted", func(l *decisions) { l.marksUnreachable = (*serviceRequest).handle }},
	{"refusal of a second copy is passed on", func(l *decisions) {
		l.pass = func(r reply, _ int, answer func(reply)) { answer(r) }
	}},
}
