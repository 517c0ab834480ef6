package redistoken

import "time"

// Rest makes iss end its subscriptions after so long without waiters.
func Rest(iss *Issuer, rest time.Duration) { iss.hall.rest = rest }

// Held is how many waiters of iss have a lock, as far as it remembers.
func Held(iss *Issuer) int {
	iss.hall.mu.Lock()
	defer iss.hall.mu.Unlock()
	n := 0
	for _, l := range iss.hall.lines {
		n += len(l.held)
	}
	return n
}
