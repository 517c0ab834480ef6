package tokentest_test

import (
	"maps"
	"time"

	"github.com/fencepost/fencepost/token"
)

// hand makes at the holder, and lets it know; the model is locked.
func (m *model) hand(l *lease, resource string, at *place) {
	accept := min(at.ttl, max(at.ttl/3, 250*time.Millisecond))
	if m.has(handOverIsBrief) {
		accept = 0
	}
	now, last := time.Now(), l.number
	switch {
	case m.has(handOverKeepsTheNumber) && last > 0:
	case m.has(handOverForgetsTheRaise) && last > now.UnixMicro()/10:
		l.number = now.UnixMicro() / 10
	default:
		l.number = m.mint(l)
	}
	if !m.has(handOverIsOnlyTold) {
		l.holder, l.until = at.holder, now.Add(accept)
	}
	tok := token.Token{Resource: resource, Number: l.number, Holder: at.holder}
	delay := m.under
	if m.has(untilAtReceipt) {
		delay = 30 * time.Millisecond
	}
	time.AfterFunc(delay, func() { at.handed <- token.Grant{Token: tok, Until: m.handedUntil(now, at.ttl, accept)} })
}

func (m *model) handedUntil(granted time.Time, ttl, accept time.Duration) time.Time {
	switch {
	case m.has(untilAtReceipt):
		return time.Now().Add(accept)
	case m.has(handOverPromisesTheTTL):
		return granted.Add(ttl)
	}
	return m.until(granted, accept)
}

// name is what a lease is of; the model is locked.
func (m *model) name(l *lease) string {
	for resource := range maps.Keys(m.leases) {
		if m.leases[resource] == l {
			return resource
		}
	}
	return ""
}
