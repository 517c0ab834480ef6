package simulations

import "time"

// state is what a writer is at.
type state int

const (
	parked  state = iota // at a step, until it is woken
	ended                // its Hold has returned
	queued               // for the lock, which another has
	waiting              // for something else that others have, or just slow
)

// await returns when w has come to the step where it is stopped, has ended, is
// told that another has the lock, or has been waiting for too long.
func (w *writer) await(bound time.Duration) state {
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case <-w.parked:
		return parked
	case <-w.done:
		return ended
	case <-w.held:
		return queued
	case <-timer.C:
		return waiting
	}
}

// wake lets w, which is parked, go on until it is stopped again.
func (w *writer) wake(stop func(int, string) bool) {
	w.until(stop)
	w.asleep.Store(false)
	select {
	case <-w.held: // of before
	default:
	}
	w.resume <- struct{}{}
}

// over reports whether w's Hold has returned.
func (w *writer) over() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}
