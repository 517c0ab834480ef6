package dst

import (
	"slices"
	"strings"
	"time"

	"github.com/fencepost/fencepost/internal/lockstate"
	"github.com/fencepost/fencepost/token"
)

// cluster is the lock and its replica, which can replace it. Each process has its own
// view of which server is the lock, so both can be in use at the same time.
type cluster struct {
	servers [2]server
	primary int
	copied  []lockstate.Lock // the state that the replica has received
	// late records that the clock has gone back: leases that were granted before it end
	// long after they should. copiedLate is late as the replica has copied it.
	late, copiedLate bool
}

func (c *cluster) start(w *world) {
	for i := range c.servers {
		s := &c.servers[i]
		s.node = node{w: w, place: atLock + i, name: "lock"}
		s.forget()
	}
	if w.chance(60) { // the clock went back before the run
		ahead := lockstate.Clock(epoch.Add(w.upTo(time.Hour)))
		for _, l := range c.servers[0].locks {
			l.Number = ahead
		}
	}
	c.replicate(w)
}

// replicate copies the primary's state to the replica from time to time.
func (c *cluster) replicate(w *world) {
	c.copied, c.copiedLate = c.copied[:0], c.late
	for _, l := range c.servers[c.primary].locks {
		seen := *l
		seen.Queue = nil
		c.copied = append(c.copied, seen)
	}
	if w.now < troubled {
		w.after(w.upTo(ttl), func() { c.replicate(w) })
	}
}

// promote makes the replica the primary, with the state it has copied. Processes that
// were not notified still use the old primary.
func (c *cluster) promote(w *world) {
	c.primary, c.late = 1-c.primary, c.copiedLate
	s := &c.servers[c.primary]
	s.life++
	s.down, s.skew = false, c.servers[1-c.primary].skew
	s.forget()
	for i := range c.copied {
		*s.locks[i] = c.copied[i]
	}
	for _, p := range w.holders {
		w.after(w.upTo(ttl), func() { p.at = c.primary })
	}
}

// isBehind reports whether the next number would be below a mark.
func (c *cluster) isBehind(resource int, mark int64) bool {
	s := &c.servers[c.primary]
	return max(s.locks[resource].Number, lockstate.Clock(s.clock())) < mark
}

// removeWaiters removes a dead process from the queues: real queues detect dead waiters.
// Otherwise each would be granted the lock for a whole ttl.
func (c *cluster) removeWaiters(p *process) {
	for i := range c.servers {
		for _, l := range c.servers[i].locks {
			l.Queue = slices.DeleteFunc(l.Queue, func(w *lockstate.Waiter) bool { return strings.HasPrefix(w.Holder, p.name+"-") })
		}
	}
}

// server is a server that may be the lock: it has a lock for each resource.
type server struct {
	node
	locks []*lockstate.Lock
	calls []bool // by resource: a call of serve is scheduled for the end of its grant
}

// forget resets the server's memory.
func (s *server) forget() {
	s.locks, s.calls = nil, make([]bool, len(s.w.names))
	for _, name := range s.w.names {
		s.locks = append(s.locks, &lockstate.Lock{Resource: name})
	}
}

// serve grants to the next waiter. While waiters are left, it schedules another call for
// the end of the grant.
func (s *server) serve(resource int) {
	l := s.locks[resource]
	l.Serve(s.clock())
	if len(l.Queue) == 0 || s.calls[resource] {
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

// restart stops a server for a while. It keeps its locks and loses its queues: waiters
// send their request again.
func (s *server) restart(away time.Duration) {
	s.node.restart(away)
	for r, l := range s.locks {
		l.Queue, s.calls[r] = nil, false
	}
	s.w.decisions.afterLockRestart(s)
}

// granted is the lock's answer to a request for it.
type granted struct {
	grant token.Grant
	err   error
}

// grant handles a request for the lock.
func (s *server) grant(a *acquisition, answer func(granted)) {
	l, r, life := s.locks[a.resource], a.resource, a.life
	grant, err := s.w.decisions.acquire(l, a.holder, ttl, s.clock())
	grant = s.granted(a, grant, err)
	if err != nil && s.w.isLine && !stands(l, a.holder) {
		s.w.decisions.join(l, &lockstate.Waiter{Holder: a.holder, TTL: ttl, Served: func(g token.Grant, err error) {
			g = s.granted(a, g, err)
			stamp := a.stamp
			s.w.sendTo(a.process, life, s.place, step(func() { a.onGrant(granted{g, err}, stamp) }))
		}}, s.clock())
	}
	s.serve(r)
	answer(granted{grant, err})
}

func stands(l *lockstate.Lock, holder string) bool {
	for _, w := range l.Queue {
		if w.Holder == holder {
			return true
		}
	}
	return false
}

// granted records a number, whose reply may be lost. A holder that repeats its request
// may be granted several numbers.
func (s *server) granted(a *acquisition, g token.Grant, err error) token.Grant {
	if err != nil {
		return g
	}
	l := s.locks[a.resource]
	g.Token.Number = s.w.decisions.number(l, g, s.clock())
	l.Grant.Token.Number = g.Token.Number
	entry := s.w.at(a.op)
	if entry.Number > 0 {
		entry = a.addGrant(*entry)
	}
	entry.Number = g.Token.Number
	return g
}

// leave removes a waiter from the queue.
func (s *server) leave(resource int, holder string) {
	l := s.locks[resource]
	for _, w := range l.Queue {
		if w.Holder == holder {
			l.Leave(w, s.clock())
			return
		}
	}
}
