package tokentest_test

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/fencepost/fencepost/token"
)

// flaw is a mistake that issuers in the field have made, or could.
type flaw string

// model is an issuer that makes one mistake, or none.
type model struct {
	flaw   flaw
	mu     sync.Mutex
	leases map[string]*lease
	under  time.Duration // how long a message is under way
	linger time.Duration // how long after it has left the line who leaves comes back
}

type lease struct {
	number int64
	holder string
	until  time.Time
	line   []*place
	raised int64 // of a flaw that keeps it apart
}

func newModel(f flaw) token.Issuer {
	return &model{flaw: f, leases: map[string]*lease{}, under: time.Microsecond}
}

// newSlowModel makes no mistake. Who leaves it does so before it hears of a
// hand-over, and comes back long after the next one was served.
func newSlowModel() token.Issuer {
	return &model{leases: map[string]*lease{}, under: time.Millisecond, linger: time.Second}
}

func (m *model) has(f flaw) bool { return m.flaw == f }

// at returns the lease of a resource; the model is locked.
func (m *model) at(resource string) *lease {
	switch {
	case m.has(oneLockForAll):
		resource = "the lock"
	case m.has(namesAreCut):
		resource = resource[:min(len(resource), 64)]
	case m.has(namesIgnoreCase):
		resource = strings.ToLower(resource)
	case m.has(namesEndAtBrace):
		resource, _, _ = strings.Cut(resource, "}")
	}
	if m.leases[resource] == nil {
		m.leases[resource] = &lease{}
	}
	return m.leases[resource]
}

func (m *model) same(a, b string) bool {
	switch {
	case m.has(holdersByPrefix):
		return strings.HasPrefix(a, b) || strings.HasPrefix(b, a)
	case m.has(holdersIgnoreCase):
		return strings.EqualFold(a, b)
	}
	return a == b
}

func (m *model) mint(l *lease) int64 {
	switch {
	case l.raised > l.number && l.until.After(time.Now()):
		return l.raised + 1
	case m.has(numbersFromOne):
		return l.number + 1
	case m.has(expiryForgetsNumber) && !l.until.IsZero():
		return 1
	case m.has(numbersOnlyClock):
		return time.Now().UnixMicro() / 10
	case m.has(numbersInMicroseconds):
		return max(l.number+1, time.Now().UnixMicro())
	}
	return max(l.number+1, time.Now().UnixMicro()/10)
}

func (m *model) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	if err := ctx.Err(); err != nil && !m.has(contextIgnored) {
		return token.Grant{}, err
	}
	if _, err := token.New(resource, 1, holder); err != nil && !m.has(namesUnchecked) {
		return token.Grant{}, err
	}
	number := m.early(resource)
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.at(resource)
	if !m.barges(l, holder) {
		m.dispatch(l)
	}
	if err := m.refusal(l, resource, holder, ttl); err != nil {
		return token.Grant{}, err
	}
	again := l.holder == holder && l.until.After(time.Now())
	if number == 0 {
		number = m.mint(l)
	}
	m.dawdle()
	l.number, l.holder = number, holder
	if !again || !m.has(secondGrantKeepsTTL) {
		l.until = time.Now().Add(ttl)
	}
	tok := token.Token{Resource: resource, Number: number, Holder: holder}
	return token.Grant{Token: tok, Until: m.until(time.Now(), ttl)}, nil
}

func (m *model) until(now time.Time, ttl time.Duration) time.Time {
	switch {
	case m.has(untilTooLate):
		return now.Add(ttl + ttl/2)
	case m.has(untilAfterGrace):
		return now.Add(ttl + 20*time.Millisecond)
	case m.has(untilOnWallClock):
		return now.Add(ttl).Round(0)
	case m.has(untilIsNow):
		return now
	}
	return now.Add(ttl)
}
