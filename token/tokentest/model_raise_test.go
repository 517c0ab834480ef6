package tokentest_test

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/fencepost/fencepost/token"
)

func (m *model) Raise(ctx context.Context, resource string, number int64) error {
	switch err := context.Cause(ctx); {
	case err != nil && m.has(raiseCancelledIsLost):
		return token.ErrLost
	case err != nil && !m.has(contextIgnored):
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.at(resource)
	if number > m.poison() {
		return m.poisoned(l, number)
	}
	known := l.number >= number
	if m.has(raiseInTwoSteps) {
		m.mu.Unlock()
		time.Sleep(rand.N(4 * time.Millisecond))
		m.mu.Lock()
	}
	switch {
	case known && m.has(raiseSaysNothing):
		return nil
	case known && !m.has(raiseLowers):
		return token.ErrLost
	}
	m.put(l, number)
	return nil
}

func (m *model) poisoned(l *lease, number int64) error {
	if m.has(poisonRaises) {
		l.number = number
	}
	return token.ErrPoisoned
}

// poison is the greatest number to raise to.
func (m *model) poison() int64 {
	bound := token.Poisoned
	switch {
	case m.has(raiseIsUnbounded):
		return token.MaxNumber
	case m.has(raiseBoundTooLow):
		bound /= 10
	}
	return time.Now().UnixMicro()/10 + bound
}

// put raises; the model is locked.
func (m *model) put(l *lease, number int64) {
	switch {
	case m.has(raiseIsIgnored):
	case m.has(raiseIsOneShort):
		l.number = number - 1
	case m.has(raiseIsOfTheLease):
		l.raised = number
	default:
		l.number = number
	}
	switch {
	case m.has(raiseReleases):
		l.until = time.Time{}
	case m.has(raiseTakes):
		l.holder, l.until = "raiser", time.Now().Add(time.Minute)
	}
}
