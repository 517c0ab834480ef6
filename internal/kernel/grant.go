package kernel

import (
	"github.com/fencepost/fencepost/internal/lock"
	"github.com/fencepost/fencepost/token"
)

// granted is what the lock says to one who asks.
type granted struct {
	grant token.Grant
	err   error
}

// grant is the server's side of it.
func (s *server) grant(a *wish, answer func(granted)) {
	l, r, life := s.locks[a.resource], a.resource, a.life
	grant, err := s.w.laws.acquire(l, a.holder, ttl, s.clock())
	grant = s.granted(a, grant, err)
	if err != nil && s.w.isLine && !stands(l, a.holder) {
		s.w.laws.join(l, &lock.Waiter{Holder: a.holder, TTL: ttl, Served: func(g token.Grant, err error) {
			g = s.granted(a, g, err)
			stamp := a.stamp
			s.w.sendTo(a.process, life, s.place, step(func() { a.told(granted{g, err}, stamp) }))
		}}, s.clock())
	}
	s.serve(r)
	answer(granted{grant, err})
}

func stands(l *lock.Lock, holder string) bool {
	for _, w := range l.Line {
		if w.Holder == holder {
			return true
		}
	}
	return false
}

// granted puts down a number that may never be heard of. A holder who asks again
// may be given several.
func (s *server) granted(a *wish, g token.Grant, err error) token.Grant {
	if err != nil {
		return g
	}
	l := s.locks[a.resource]
	g.Token.Number = s.w.laws.number(l, g, s.clock())
	l.Grant.Token.Number = g.Token.Number
	entry := s.w.at(a.op)
	if entry.Number > 0 {
		entry = a.burn(*entry)
	}
	entry.Number = g.Token.Number
	return g
}

// leave takes one who waits out of the line.
func (s *server) leave(resource int, holder string) {
	l := s.locks[resource]
	for _, w := range l.Line {
		if w.Holder == holder {
			l.Leave(w, s.clock())
			return
		}
	}
}
