package kernel

import (
	"time"

	"github.com/fencepost/fencepost/internal/lock"
)

// server is one that may be the lock: a lock for each resource.
type server struct {
	node
	locks []*lock.Lock
	calls []bool // by resource: somebody comes by when its grant ends
}

// forget makes a server know nothing.
func (s *server) forget() {
	s.locks, s.calls = nil, make([]bool, len(s.w.names))
	for _, name := range s.w.names {
		s.locks = append(s.locks, &lock.Lock{Resource: name})
	}
}

// serve has somebody come by when the grant ends, for as long as there is a
// line.
func (s *server) serve(resource int) {
	l := s.locks[resource]
	l.Serve(s.clock())
	if len(l.Line) == 0 || s.calls[resource] {
		return
	}
	s.calls[resource] = true
	s.after(l.Grant.Until.Sub(s.clock()), func() {
		if s.locks[resource] == l {
			s.calls[resource] = false
			s.serve(resource)
		}
	})
}

// restart takes a server away. It keeps its locks, and forgets who waits: they
// ask again.
func (s *server) restart(away time.Duration) {
	s.node.restart(away)
	for r, l := range s.locks {
		l.Line, s.calls[r] = nil, false
	}
	s.w.laws.revive(s)
}
