package pgtoken

import "time"

// UntilOfMessage is the end of a lease that was handed over, for a waiter whose
// last question was sent at asked and answered at clock.
func UntilOfMessage(payload string, asked time.Time, clock int64, received time.Time) time.Time {
	m, err := parseMessage(payload, received)
	if err != nil {
		panic(err)
	}
	return m.grant(asked, microseconds(clock)).Until
}

// Hurry has the connection of the notifications end when nobody has waited for d.
func (i *Issuer) Hurry(d time.Duration) { i.line.silence = d }
