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
