package kernel

import (
	"time"

	"github.com/fencepost/fencepost/internal/window"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/seal"
)

// service stands before the store, in one process with it, and behind a proxy.
// Its handler reads and writes without a guard of its own: the window must keep
// others out meanwhile.
type service struct {
	w       *world
	proxy   node
	gates   []*window.Gate // by resource
	blinded time.Duration  // until when its marks cannot be reached
}

func newService(w *world) *service {
	s := &service{w: w, proxy: node{w: w, place: atProxy, name: "proxy"}}
	s.open()
	return s
}

// open is how the service begins: nobody is at any gate.
func (s *service) open() {
	s.gates = nil
	for range s.w.names {
		s.gates = append(s.gates, new(window.Gate))
	}
}

// keys are the issuer's and the service's.
var keys = func() *seal.Ring {
	ring, err := seal.New(seal.Key{ID: "kernel", Secret: make([]byte, seal.MinSecret)})
	if err != nil {
		panic(err)
	}
	return ring
}()

// sealed is a token as it goes through the network.
func sealed(tok token.Token) seal.Sealed {
	s, err := keys.Seal(tok, time.Time{})
	if err != nil {
		panic(err) // the locks mint no token that is not one
	}
	return s
}

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

// year is one, in numbers.
const year = int64(365 * 24 * time.Hour / (10 * time.Microsecond))

// forge sends a token that a stranger has made up: it would lock everybody out.
func (s *service) forge() {
	tok := token.Token{Resource: s.w.names[0], Number: s.w.store.now() + year, Holder: "stranger"}
	forged := seal.Sealed{Token: tok, Key: "kernel"}
	s.w.store.hear(func() {
		s.hear(&request{tok: tok, seal: forged}, func(reply) {})
	})
}
