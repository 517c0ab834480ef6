package token

import "sync"

// wheels are those that have leases. One that has none any more is forgotten:
// an issuer that nobody uses can be collected.
var wheels = registry{of: map[Issuer]*wheel{}}

type registry struct {
	mu sync.Mutex
	of map[Issuer]*wheel
}

// enter returns the wheel of an issuer, for one lease more. An issuer that
// cannot be compared, which it should, has one for each lease.
func (r *registry) enter(iss Issuer) *wheel {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !isComparable(iss) {
		return newWheel(iss)
	}
	w := r.of[iss]
	if w == nil {
		w = newWheel(iss)
		r.of[iss] = w
	}
	w.leases++
	return w
}

// leave is told that a lease is on the wheel no more.
func (r *registry) leave(w *wheel) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !isComparable(w.issuer) {
		return // it had the wheel for itself
	}
	if w.leases--; w.leases == 0 {
		delete(r.of, w.issuer)
	}
}
