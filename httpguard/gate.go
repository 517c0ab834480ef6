package httpguard

import (
	"github.com/fencepost/fencepost/internal/window"
	"github.com/fencepost/fencepost/token/seal"
)

// gate is where the requests on one resource meet. It is guarded by its room's
// mutex, and has no allocation of its own beside it.
type gate struct {
	window.Gate
	resource string
	owner    any
	next     *gate // in the room
}

// place is one request at one gate.
type place struct {
	window.Place
	sealed *seal.Sealed // the visit's own, with the token
	visit  *visit
	room   *room
	gate   *gate         // nil: at none
	called chan struct{} // closed when waiting has ended, one way or the other
}

var _ window.Visitor = (*place)(nil)

// Called implements [window.Visitor].
func (p *place) Called() {
	if !p.Inside {
		p.gate = nil
	}
	close(p.called)
}
