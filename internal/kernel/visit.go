package kernel

import (
	"errors"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/window"
)

// visit is a request that has reached the service.
type visit struct {
	*service
	request *request
	answer  func(reply)
	place   window.Place
	told    bool // to go, since a newer token has come
	isOver  bool
}

var (
	errBlind  = errors.New("kernel: the marks cannot be reached")
	errHeldUp = errors.New("kernel: older requests are still in their handlers")
	// errOvertaken is a refusal by the window. It promises what the mark's does,
	// and says nothing of the mark: whoever has overtaken may never be admitted.
	errOvertaken = errors.New("kernel: a newer request has come")
)

// hear has a request go through the service: the seal, the window, the store,
// and the window again.
func (s *service) hear(q *request, answer func(reply)) {
	if err := s.w.laws.verify(keys, q.seal); err != nil {
		answer(reply{err: err})
		return
	}
	v := &visit{service: s, request: q, answer: answer}
	v.place = window.Place{Token: &q.tok, Visitor: v}
	if s.w.observe {
		v.admit()
		return
	}
	s.w.laws.visit(v)
}

// visit asks the store inside the window, and only there.
func (v *visit) visit() { v.enter(v.admit) }

// enter goes on when v is inside.
func (v *visit) enter(then func()) {
	older, waits, err := v.gate().Enter(&v.place)
	if err != nil {
		v.end(reply{err: errOvertaken})
		return
	}
	for _, o := range older {
		v.w.laws.dismiss(o.Visitor.(*visit))
	}
	if !waits {
		then()
		return
	}
	v.w.store.after(ttl/10, func() {
		if !v.place.Inside && !v.isOver {
			v.gate().Leave(&v.place)
			v.w.laws.heldUp(v)
		}
	})
}

// dismiss tells v to go.
func (v *visit) dismiss() { v.told = true }

// heldUp is the end of a wait that was too long.
func (v *visit) heldUp() { v.end(reply{err: errHeldUp}) }

func (v *visit) gate() *window.Gate { return v.gates[v.request.resource] }

// Called implements [window.Visitor].
func (v *visit) Called() {
	if v.place.Inside {
		v.admit()
	} else {
		v.end(reply{err: errOvertaken})
	}
}

// admit asks for the mark, which takes a moment. A newer request that has come
// meanwhile is looked for once more.
func (v *visit) admit() {
	v.w.store.after(v.w.upTo(ttl/50), func() {
		if v.w.now < v.blinded {
			v.w.laws.blind(v)
			return
		}
		err := v.w.laws.admit(v.w.store, v.request.resource, v.request.tok)
		if err == nil && v.told {
			err = errOvertaken
		}
		if err != nil {
			v.leave(reply{err: err})
			return
		}
		v.handle()
	})
}

// blind fails closed.
func (v *visit) blind() { v.leave(reply{err: errBlind}) }

// leave ends a visit that was inside.
func (v *visit) leave(r reply) {
	if v.place.Inside {
		v.gate().Leave(&v.place)
	}
	v.end(r)
}

// end answers. A service never tells its mark.
func (v *visit) end(r reply) {
	if errors.Is(r.err, guard.ErrStale) {
		v.w.isMute = v.w.isMute || v.w.lock.isBehind(v.request.resource, v.w.store.mark(v.request.resource).Number)
		r.err = &guard.StaleError{Token: v.request.tok}
	}
	v.isOver = true
	v.answer(r)
}
