package kernel

import (
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/seal"
)

// request is a question or a change under a token.
type request struct {
	resource int
	tok      token.Token
	seal     seal.Sealed // where it goes to the service
	task     *task       // nil: a claim
	write    op          // the attempt, where the holder writes itself
	seen     row         // what it read
}

// reply is what the guard says of it.
type reply struct {
	err        error
	seen, made int64 // versions
	by         op    // the attempt that was applied
}

// listener is who is told what the guard says.
type listener interface {
	hear(reply)
	miss() // it, in time
}

// ask puts a request to the store, or to the service, through its proxy.
func (h *hold) ask(q *request, l listener) {
	if s := h.w.service; s != nil {
		s.ask(h, q, l)
		return
	}
	s := h.w.store
	call(h.process, &s.node, patience, &admission{l, s, q})
}

// admission is a request to the store itself.
type admission struct {
	listener
	store   *store
	request *request
}

func (a *admission) arrive(answer func(reply)) {
	s, q := a.store, a.request
	if q.task != nil {
		s.w.laws.write(s, q, answer)
		return
	}
	answer(reply{err: s.w.laws.admit(s, q.resource, q.tok)})
}
