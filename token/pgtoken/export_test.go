package pgtoken

import "time"

// With these timeouts, no waiter of a test loses its place because the machine is busy.
func init() { releaseTimeout, cancelDelay, minStallTimeout = time.Minute, time.Minute, 10*time.Minute }

// UntilOfNotification returns the end of a lease that was handed over, for a waiter whose
// last poll was sent at asked and answered at clock.
func UntilOfNotification(payload string, asked time.Time, clock int64, received time.Time) time.Time {
	n, err := parseNotification(payload, received)
	if err != nil {
		panic(err)
	}
	return n.grant(&Issuer{}, asked, microseconds(clock)).Until
}

// SetIdleTimeout sets how long the connection for notifications is kept without a waiter.
func (i *Issuer) SetIdleTimeout(d time.Duration) { i.queue.idleAfter = d }
