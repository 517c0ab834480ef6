package kernel

// ask sends a request by way of the proxy.
func (s *service) ask(h *hold, q *request, answered func(reply), lost func()) {
	if h.seal.Token != q.tok {
		h.seal = sealed(q.tok)
	}
	q.seal = h.seal
	call(h.process, &s.proxy, 3*ttl, func(answer func(reply)) { s.forward(q, answer) }, answered, lost)
}

// forward sends a request on, and again where no answer comes.
func (s *service) forward(q *request, answer func(reply)) {
	store, life, done, sent := s.w.store, s.proxy.life, false, 0
	back := func(r reply) {
		if s.w.amiss(Retry, 20) { // the connection breaks under the answer
			return
		}
		s.w.send(store.place, s.proxy.place, func() {
			if !done && s.proxy.life == life {
				done = true
				s.w.laws.pass(r, sent, answer)
			}
		})
	}
	var try func(left int)
	try = func(left int) {
		if done || left == 0 {
			return
		}
		sent++
		s.w.send(s.proxy.place, store.place, func() { store.hear(func() { s.hear(q, back) }) })
		if s.w.faults.has(Retry) {
			s.proxy.after(s.w.upTo(ttl), func() { try(left - 1) })
		}
	}
	try(tries)
}

// pass hands an answer on. Where a request was sent again a refusal speaks of one
// copy alone, and the other may have been applied: that is no answer at all.
func pass(r reply, sent int, answer func(reply)) {
	if r.err == nil || sent == 1 {
		answer(r)
	}
}
