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
	life := n.life
	n.w.after(d, func() {
		if n.life == life {
			do()
		}
	})
}

// restart takes n away for a while.
func (n *node) restart(away time.Duration) {
	n.life++
	n.down = true
	n.w.after(away, func() { n.down = false })
}
