package kernel

import "github.com/fencepost/fencepost/token/seal"

var serviceMutants = []mistake{
	{"seal not verified", func(l *laws) { l.verify = func(*seal.Ring, seal.Sealed) error { return nil } }},
	{"window not closed", func(l *laws) { l.visit = (*visit).admit }},
	{"store asked before the window", func(l *laws) {
		l.visit = func(v *visit) {
			if v.request.task == nil {
				v.visit()
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
	{"window opens before the handler has left", func(l *laws) {
		l.visit = func(v *visit) {
			v.enter(func() {
				v.admit()
				v.gate().Leave(&v.place)
			})
		}
	}},
	{"request that has waited too long goes in", func(l *laws) { l.heldUp = (*visit).admit }},
	{"told to go is answered as refused", func(l *laws) {
		l.dismiss = func(older *visit) { older.answer(reply{err: errOvertaken}) }
	}},
	{"marks out of reach are taken for admitted", func(l *laws) { l.blind = (*visit).handle }},
	{"refusal of a second copy is passed on", func(l *laws) {
		l.pass = func(r reply, _ int, answer func(reply)) { answer(r) }
	}},
}
