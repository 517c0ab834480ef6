package dst

import (
	"errors"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard/signature"
	"github.com/fencepost/fencepost/internal/inflight"
	"github.com/fencepost/fencepost/token"
)

// service is a service in front of the store, in one process with the store, and behind a
// proxy. Its handler reads and writes without a guard of its own: the in-flight table
// must exclude other requests.
type service struct {
	w             *world
	proxy         node
	queues        []*inflight.Queue // by resource
	marksCutUntil time.Duration     // until when its marks are unreachable
}

func newService(w *world) *service {
	s := &service{w: w, proxy: node{w: w, place: atProxy, name: "proxy"}}
	s.open()
	return s
}

// open resets the in-flight table.
func (s *service) open() {
	s.queues = nil
	for range s.w.names {
		s.queues = append(s.queues, new(inflight.Queue))
	}
}

// keys are the keys of the issuer and the service.
var keys = func() *signature.Keyring {
	keyring, err := signature.New(signature.Key{ID: "dst", Secret: make([]byte, signature.MinSecret)})
	if err != nil {
		panic(err)
	}
	return keyring
}()

// signed returns a token with its signature.
func signed(tok token.Token) signature.Signed {
	s, err := keys.Sign(tok, time.Time{})
	if err != nil {
		panic(err) // the locks mint valid tokens only
	}
	return s
}

// year is one year in units of numbers.
const year = int64(365 * 24 * time.Hour / (10 * time.Microsecond))

// forge sends a token that no issuer has made. If it were admitted, no holder could write
// afterwards.
func (s *service) forge() {
	tok := token.Token{Resource: s.w.names[0], Number: s.w.store.now() + year, Holder: "stranger"}
	forged := signature.Signed{Token: tok, Key: "dst"}
	s.w.store.deliver(func() {
		s.receive(&request{tok: tok, signed: forged}, func(reply) {})
	})
}

// serviceRequest is a request that has reached the service.
type serviceRequest struct {
	*service
	request   *request
	answer    func(reply)
	slot      inflight.Slot
	cancelled bool // a newer token has arrived
	isOver    bool
}

var (
	errMarksUnreachable = errors.New("dst: the marks cannot be reached")
	errWaitTimeout      = errors.New("dst: older requests are still in their handlers")
	// errOvertaken is a refusal by the in-flight table. It promises that nothing was
	// applied. It does not prove that the mark is newer: the newer request may be
	// refused.
	errOvertaken = errors.New("dst: a newer request has come")
)

// receive passes a request through the service: the signature, the in-flight table, the
// store, and the in-flight table again.
func (s *service) receive(q *request, answer func(reply)) {
	if err := s.w.decisions.verify(keys, q.signed); err != nil {
		answer(reply{err: err})
		return
	}
	v := &serviceRequest{service: s, request: q, answer: answer}
	v.slot = inflight.Slot{Token: &q.tok, Waiter: v}
	if s.w.ignoreRefusals {
		v.admit()
		return
	}
	s.w.decisions.serve(v)
}

// serve checks the store while v is in flight.
func (v *serviceRequest) serve() { v.enter(v.admit) }

// enter calls then when v runs.
func (v *serviceRequest) enter(then func()) {
	older, waits, err := v.queue().Enter(&v.slot)
	if err != nil {
		v.end(reply{err: errOvertaken})
		return
	}
	for _, o := range older {
		v.w.decisions.cancel(o.Waiter.(*serviceRequest))
	}
	if !waits {
		then()
		return
	}
	v.w.store.after(ttl/10, func() {
		if !v.slot.Running && !v.isOver {
			v.queue().Leave(&v.slot)
			v.w.decisions.timedOut(v)
		}
	})
}

// cancel cancels the context of v.
func (v *serviceRequest) cancel() { v.cancelled = true }

// timedOut ends a request that has waited too long.
func (v *serviceRequest) timedOut() { v.end(reply{err: errWaitTimeout}) }

func (v *serviceRequest) queue() *inflight.Queue { return v.queues[v.request.resource] }

// Wake implements [inflight.Waiter].
func (v *serviceRequest) Wake() {
	if v.slot.Running {
		v.admit()
	} else {
		v.end(reply{err: errOvertaken})
	}
}

// admit checks the store, which takes a while. Then it checks again whether a newer
// request has arrived.
func (v *serviceRequest) admit() {
	v.w.store.after(v.w.upTo(ttl/50), func() {
		if v.w.now < v.marksCutUntil {
			v.w.decisions.marksUnreachable(v)
			return
		}
		err := v.w.decisions.admit(v.w.store, v.request.resource, v.request.tok)
		if err == nil && v.cancelled {
			err = errOvertaken
		}
		if err != nil {
			v.leave(reply{err: err})
			return
		}
		v.handle()
	})
}

// marksUnreachable refuses the request.
func (v *serviceRequest) marksUnreachable() { v.leave(reply{err: errMarksUnreachable}) }

// leave ends a request that was running.
func (v *serviceRequest) leave(r reply) {
	if v.slot.Running {
		v.queue().Leave(&v.slot)
	}
	v.end(r)
}

// end answers. A service never reports its mark.
func (v *serviceRequest) end(r reply) {
	if errors.Is(r.err, guard.ErrStale) {
		v.w.hiddenMark = v.w.hiddenMark || v.w.lock.isBehind(v.request.resource, v.w.store.mark(v.request.resource).Number)
		r.err = &guard.StaleError{Token: v.request.tok}
	}
	v.isOver = true
	v.answer(r)
}

// handle is the handler: it reads, works, and writes. It may ignore that it was
// cancelled.
func (v *serviceRequest) handle() {
	q := v.request
	if q.task == nil {
		v.leave(reply{})
		return
	}
	seen := v.w.store.rows[q.resource]
	v.w.store.after(v.takes(), func() {
		if v.cancelled && v.w.flip() {
			v.leave(reply{err: errWaitTimeout})
			return
		}
		change := *q
		change.seen = seen
		v.leave(v.w.decisions.apply(v.w.store, &change))
	})
}

// takes returns how long the handler takes: sometimes as long as a slow body.
func (v *serviceRequest) takes() time.Duration {
	if v.w.hit(Delay, 20) {
		return v.w.upTo(3 * ttl)
	}
	return v.request.task.think()
}

// ask sends a request through the proxy.
func (s *service) ask(h *hold, q *request, l listener) {
	if h.signed.Token != q.tok {
		h.signed = signed(q.tok)
	}
	q.signed = h.signed
	call(h.process, &s.proxy, 3*ttl, &proxiedRequest{listener: l, service: s, request: q})
}

// proxiedRequest is a request that the proxy forwards, and repeats if there is no answer.
type proxiedRequest struct {
	listener
	service *service
	request *request
	answer  func(reply)
	life    int // the proxy's
	sent    int // copies
	done    bool
}

func (p *proxiedRequest) onRequest(answer func(reply)) {
	p.answer, p.life = answer, p.service.proxy.life
	p.send()
}

func (p *proxiedRequest) send() {
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

// do is the arrival of one copy.
func (p *proxiedRequest) do() {
	if !p.service.w.store.down {
		p.service.receive(p.request, p.back)
	}
}

// back carries the answer to one copy, unless the connection breaks.
func (p *proxiedRequest) back(r reply) {
	s := p.service
	if s.w.hit(Retry, 20) {
		return
	}
	s.w.send(s.w.store.place, s.proxy.place, step(func() {
		if !p.done && s.proxy.life == p.life {
			p.done = true
			s.w.decisions.pass(r, p.sent, p.answer)
		}
	}))
}

// pass forwards an answer. If the request was sent more than once, a refusal concerns one
// copy only, and the other may have been applied: so the proxy drops the refusal.
func pass(r reply, sent int, answer func(reply)) {
	if r.err == nil || sent == 1 {
		answer(r)
	}
}
