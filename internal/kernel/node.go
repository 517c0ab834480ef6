package kernel

import "time"

// node is a server. While it is down it hears nothing; and what was under way in
// it when it went down is gone.
type node struct {
	w     *world
	place int
	name  string
	life  int
	down  bool
	skew  time.Duration // what its clock shows too much
}

// clock is what it takes for the time.
func (n *node) clock() time.Time { return epoch.Add(n.w.now + n.skew) }

// hear has a message arrive, if n can hear it.
func (n *node) hear(message func()) {
	if !n.down {
		message()
	}
}

// after does something later, if n lives as long.
func (n *node) after(d time.Duration, do func()) {
	n.w.agenda.push(event{at: n.w.now + max(d, 0), deed: step(do), who: n, life: n.life})
}

// act implements [actor].
func (n *node) act(e *event) {
	if n.life == e.life {
		e.deed.do()
	}
}

// restart takes n away for a while.
func (n *node) restart(away time.Duration) {
	n.life++
	n.down = true
	n.after(away, func() { n.down = false }) // if it is not restarted once more meanwhile
}
