package kernel

import "time"

// handle is the handler: it reads, works, and writes. One that was told to go may
// not have noticed.
func (v *visit) handle() {
	q := v.request
	if q.task == nil {
		v.leave(reply{})
		return
	}
	seen := v.w.store.rows[q.resource]
	v.w.store.after(v.takes(), func() {
		if v.told && v.w.flip() {
			v.leave(reply{err: errHeldUp})
			return
		}
		change := *q
		change.seen = seen
		v.leave(v.w.laws.apply(v.w.store, &change))
	})
}

// takes is how long the handler does: at times as long as the body is on its way.
func (v *visit) takes() time.Duration {
	if v.w.amiss(Delay, 20) {
		return v.w.upTo(3 * ttl)
	}
	return v.request.task.think()
}
