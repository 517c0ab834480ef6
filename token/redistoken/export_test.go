package redistoken

import "time"

// Rest makes iss end its subscriptions after so long without waiters.
func Rest(iss *Issuer, rest time.Duration) { iss.hall.rest = rest }
