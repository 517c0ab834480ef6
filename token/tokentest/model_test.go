package tokentest_test

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/fencepost/fencepost/token"
)

// flaw is a mistake that issuers in use have made, or could make.
type flaw string

// model is an issuer that makes one mistake, or none.
type model struct {
	flaw       flaw
	mu         sync.Mutex
	leases     map[string]*lease
	under      time.Duration // the latency of a message
	leaveDelay time.Duration // the time between a waiter's leaving and the return of its Wait
}

type lease struct {
	number int64
	holder string
	until  time.Time
	queue  []*place
	raised int64 // for flaws that keep the recovered number separately
}

func newModel(f flaw) token.Issuer {
	return &model{flaw: f, leases: map[string]*lease{}, under: time.Microsecond}
}

// newSlowModel returns a model without mistakes. A leaving waiter leaves before it
// receives a hand-off, and its Wait returns long after the next waiter was served.
func newSlowModel() token.Issuer {
	return &model{leases: map[string]*lease{}, under: time.Millisecond, leaveDelay: time.Second}
}

func (m *model) has(f flaw) bool { return m.flaw == f }

// at returns the lease of a resource. The caller holds m.mu.
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
	case m.has(numbersInSeconds):
		return max(l.number+1, time.Now().Unix()*100_000)
	case m.has(numbersInMicroseconds):
		return max(l.number+1, time.Now().UnixMicro())
	}
	return max(l.number+1, time.Now().UnixMicro()/10)
}

// Forget implements [tokentest.Forgetter].
func (m *model) Forget(_ context.Context, resource string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.leases, resource)
	return nil
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
	case m.has(untilSlightlyLate):
		return now.Add(ttl + 20*time.Millisecond)
	case m.has(untilOnWallClock):
		return now.Add(ttl).Round(0)
	case m.has(untilIsNow):
		return now
	}
	return now.Add(ttl)
}

// refusal returns nil if holder may have the resource. The caller holds m.mu.
func (m *model) refusal(l *lease, resource, holder string, ttl time.Duration) error {
	left := time.Until(l.until)
	expired := left <= 0 && !(m.has(leasesNeverExpire) && !l.until.IsZero())
	if expired || m.same(l.holder, holder) && !m.has(secondGrantRefused) {
		return nil
	}
	held := &token.HeldError{Resource: resource, Holder: l.holder, Remaining: left}
	switch {
	case m.has(refusalWithoutRemaining):
		held.Remaining = 0
	case m.has(refusalNamesTheAsker):
		held.Holder = holder
	case m.has(refusalIsBare):
		return token.ErrHeld
	case m.has(refusalProlongs):
		l.until = time.Now().Add(ttl)
	case m.has(refusalTakesOver):
		l.holder = holder
	}
	return held
}

// early mints before the decision if the flaw requires that, and returns 0 if not. The
// sleep lets other callers run in between, as network latency does.
func (m *model) early(resource string) int64 {
	if !m.has(mintedBeforeDecision) && !m.has(mintedFromAnOldRead) {
		return 0
	}
	m.mu.Lock()
	l := m.at(resource)
	number := m.mint(l)
	if m.has(mintedBeforeDecision) {
		l.number = number
	}
	m.mu.Unlock()
	time.Sleep(time.Duration(1+2*(number%3)) * time.Millisecond)
	return number
}

// dawdle lets other callers decide between this decision and its effect.
func (m *model) dawdle() {
	if m.has(decidedThenWritten) {
		m.mu.Unlock()
		time.Sleep(time.Millisecond)
		m.mu.Lock()
	}
}

func (m *model) Renew(ctx context.Context, tok token.Token, ttl time.Duration) (time.Time, error) {
	if err := ctx.Err(); err != nil && !m.has(contextIgnored) {
		if m.has(cancelledIsLost) {
			err = token.ErrLost
		}
		return time.Time{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.at(tok.Resource)
	if err := m.lost(l, tok); err != nil {
		return time.Time{}, err
	}
	if !m.has(renewalChangesNothing) {
		l.holder, l.until = tok.Holder, time.Now().Add(ttl)
	}
	if m.has(renewalPromisesTooMuch) {
		return time.Now().Add(ttl + ttl/2), nil
	}
	return m.until(time.Now(), ttl), nil
}

// lost returns nil if a renewal by tok's holder succeeds. The caller holds m.mu.
func (m *model) lost(l *lease, tok token.Token) error {
	live := l.until.After(time.Now())
	mine := m.same(l.holder, tok.Holder)
	switch {
	case live && (mine || m.has(renewIgnoresHolder)):
		return nil
	case mine && !l.until.IsZero() && m.has(renewRevives):
		return nil
	case mine && l.number > 0 && m.has(renewUndoesRelease):
		return nil
	case !live && m.has(renewAcquires):
		return nil
	}
	return token.ErrLost
}

func (m *model) Release(ctx context.Context, tok token.Token) error {
	if err := ctx.Err(); err != nil && !m.has(contextIgnored) {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.at(tok.Resource)
	held := l.until.After(time.Now())
	switch {
	case held && m.has(releaseIgnoresHolder):
	case m.has(releaseComparesNumber) && l.number != tok.Number, !held || !m.same(l.holder, tok.Holder):
		if m.has(releaseAlwaysSucceeds) {
			return nil
		}
		return token.ErrLost
	}
	switch {
	case m.has(releaseForgetsNumber):
		*l = lease{}
	case !m.has(releaseDoesNothing):
		m.free(l)
	}
	return nil
}
