package kernel

import (
	"time"

	"github.com/fencepost/fencepost/simulations/history"
)

// plan draws when which faults come, and what else happens beside the holders.
func (w *world) plan() {
	for i, strike := range []func(){
		w.pause, w.suspend, w.crash, nil, nil, nil, nil, w.cut, w.jump, w.restart, w.forget, w.promote,
	} {
		if strike == nil || !w.faults.has(1<<i) {
			continue
		}
		for range 1 + w.draw.IntN(4) {
			w.after(w.upTo(troubled), strike)
		}
	}
	for range w.draw.IntN(8) {
		w.after(w.upTo(horizon), func() {
			cutoff := w.store.now() - int64(w.upTo(ttl)/(10*time.Microsecond))
			w.store.hear(func() { w.laws.prune(w.store, cutoff) })
		})
	}
	if amiss := w.faults & ofMessages; amiss != 0 {
		w.fault("network", "messages: "+amiss.String(), troubled)
	}
	for range 2 {
		w.after(w.upTo(horizon), func() { w.look(w.draw.IntN(len(w.names))) })
	}
	if w.service != nil {
		w.after(w.upTo(troubled), w.service.forge)
	}
}

// fault puts down what happened to whom, for each resource.
func (w *world) fault(who, what string, d time.Duration) {
	for r := range w.names {
		entry := w.note(history.Fault, who, r)
		entry.Note, entry.Ended = what, w.now+d
	}
}
