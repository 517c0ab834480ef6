package kernel

import (
	"slices"
	"strings"
	"time"

	"github.com/fencepost/fencepost/internal/lock"
)

// cluster is the lock, and the replica that takes its place. Which of the two is
// the lock each process believes for itself, so that both can be.
type cluster struct {
	servers [2]server
	primary int
	copied  []lock.Lock // what the replica has seen
	// late is that the clock has gone back: the leases that were given before end
	// long after they should. So is what the replica has seen of them.
	late, copiedLate bool
}

func (c *cluster) start(w *world) {
	for i := range c.servers {
		s := &c.servers[i]
		s.node = node{w: w, place: atLock + i, name: "lock"}
		s.forget()
	}
	if w.chance(60) { // its clock went back before
		ahead := lock.Clock(epoch.Add(w.upTo(time.Hour)))
		for _, l := range c.servers[0].locks {
			l.Number = ahead
		}
	}
	c.replicate(w)
}

// replicate shows the replica what the primary is like, now and then.
func (c *cluster) replicate(w *world) {
	c.copied, c.copiedLate = c.copied[:0], c.late
	for _, l := range c.servers[c.primary].locks {
		seen := *l
		seen.Line = nil
		c.copied = append(c.copied, seen)
	}
	if w.now < troubled {
		w.after(w.upTo(ttl), func() { c.replicate(w) })
	}
}

// promote makes the replica the primary, with what it has seen. The old one goes
// on for those who have not heard.
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
	return max(s.locks[resource].Number, lock.Clock(s.clock())) < mark
}

// hangUp takes who has died out of the lines, which know who listens: each dead
// waiter would be given the lock for a whole ttl.
func (c *cluster) hangUp(p *process) {
	for i := range c.servers {
		for _, l := range c.servers[i].locks {
			l.Line = slices.DeleteFunc(l.Line, func(w *lock.Waiter) bool { return strings.HasPrefix(w.Holder, p.name+"-") })
		}
	}
}
