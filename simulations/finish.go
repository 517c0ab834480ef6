package simulations

import "time"

// finish lets everybody through, one after the other as far as they do not wait
// for each other, and returns when all have ended.
func (st *stage) finish() error {
	for _, w := range st.writers {
		w.asleep.Store(false)
		w.open()
		w.leave()
	}
	limit := patience + st.subject.Bound + 2*st.subject.TTL
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for _, w := range st.writers {
		select {
		case <-w.done:
		case <-timer.C:
			st.giveUp()
			return &stuckError{w.name, limit, w.seen()}
		}
	}
	return st.clear()
}

// clear waits for the leases that were not given back, so that nobody waits for
// them later without being told to.
func (st *stage) clear() error {
	kept := false
	for _, w := range st.writers {
		if w.broken != nil {
			return w.broken
		}
		kept = w.kept.Swap(false) || kept
	}
	if kept {
		pause(st.ctx, st.subject.TTL)
	}
	return nil
}

// leave waits a little for w, which nobody stops, to end.
func (w *writer) leave() {
	timer := time.NewTimer(20 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-w.done:
	case <-w.held:
	case <-timer.C:
	}
}

// giveUp asks those who have not ended to do so: nobody waits for them.
func (st *stage) giveUp() {
	for _, w := range st.writers {
		w.cancel(errCrashed)
	}
}
