package kernel

// ask sends a request by way of the proxy.
func (s *service) ask(h *hold, q *request, l listener) {
	if h.seal.Token != q.tok {
		h.seal = sealed(q.tok)
	}
	q.seal = h.seal
	call(h.process, &s.proxy, 3*ttl, &passage{listener: l, service: s, request: q})
}

// passage is a request that is sent on, and again where no answer comes.
type passage struct {
	listener
	service *service
	request *request
	answer  func(reply)
	life    int // the proxy's
	sent    int // copies
	done    bool
}

func (p *passage) arrive(answer func(reply)) {
	p.answer, p.life = answer, p.service.proxy.life
	p.send()
}

func (p *passage) send() {
	s := p.service
	if p.done || p.sent == tries {
		return
	}
	p.sent++
	s.w.send(s.proxy.place, s.w.store.place, p)
	if s.w.now < troubled && s.w.faults.has(Retry) {
		s.proxy.after(s.w.upTo(ttl), p.send)
	}
}

// do is a copy's arrival.
func (p *passage) do() {
	if !p.service.w.store.down {
		p.service.hear(p.request, p.back)
	}
}

// back carries the answer to one copy, unless the connection breaks under it.
func (p *passage) back(r reply) {
	s := p.service
	if s.w.amiss(Retry, 20) {
		return
	}
	s.w.send(s.w.store.place, s.proxy.place, step(func() {
		if !p.done && s.proxy.life == p.life {
			p.done = true
			s.w.laws.pass(r, p.sent, p.answer)
		}
	}))
}

// pass hands an answer on. Where a request was sent again a refusal speaks of one
// copy alone, and the other may have been applied: that is no answer at all.
func pass(r reply, sent int, answer func(reply)) {
	if r.err == nil || sent == 1 {
		answer(r)
	}
}
