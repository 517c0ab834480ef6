package tokentest_test

import (
	"context"
	"time"

	"github.com/fencepost/fencepost/token"
)

// refusal is nil where holder may have the resource; the model is locked.
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

// early mints before the decision, for flaws that do; else it returns 0. The
// sleeps let others in between, as a network does.
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

// dawdle lets others decide between this decision and its effect.
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

// lost is nil where a renewal by tok's holder succeeds; the model is locked.
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
