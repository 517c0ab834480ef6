package kernel

import "github.com/fencepost/fencepost/token/seal"

var serviceMutants = []mistake{
	{"seal not verified", func(l *laws) { l.verify = func(*seal.Ring, seal.Sealed) error { return nil } }},
	{"window not closed", func(l *laws) {
		l.visit = func(s *service, q *request, answer func(reply)) { s.newVisit(q, answer).admit() }
	}},
	{"store asked before the window", func(l *laws) {
		l.visit = func(s *service, q *request, answer func(reply)) {
			v := s.newVisit(q, answer)
			if err := s.w.store.admit(q.resource, q.tok); err != nil {
				v.end(reply{err: err})
				return
			}
			s.w.store.after(s.w.upTo(ttl/10), func() { v.enter(v.handle) })
		}
	}},
	{"window opens before the handler has left", func(l *laws) {
		l.visit = func(s *service, q *request, answer func(reply)) {
			v := s.newVisit(q, answer)
			v.enter(func() {
				v.admit()
				v.gate().Leave(&v.place)
			})
		}
	}},
	{"marks out of reach are taken for admitted", func(l *laws) { l.blind = (*visit).handle }},
	{"refusal of a second copy is passed on", func(l *laws) {
		l.pass = func(r reply, _ int, answer func(reply)) { answer(r) }
	}},
}
