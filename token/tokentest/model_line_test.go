package tokentest_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/fencepost/fencepost/token"
)

// place is one in a line.
type place struct {
	holder string
	ttl    time.Duration
	due    time.Time // of a flaw: when the lease would have expired that stood when this one came
	handed chan token.Grant
}

func (m *model) Wait(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	if err := context.Cause(ctx); err != nil && !m.has(contextIgnored) {
		return token.Grant{}, err
	}
	if _, err := token.New(resource, 1, holder); err != nil && !m.has(namesUnchecked) {
		return token.Grant{}, err
	}
	l, at := m.queue(resource, holder, ttl)
	for {
		select {
		case grant := <-at.handed:
			return grant, nil
		case <-ctx.Done():
			err := m.leave(ctx, resource, l, at)
			time.Sleep(m.linger)
			return token.Grant{}, err
		case <-time.After(7 * time.Millisecond):
			m.mu.Lock()
			m.expire(l, at)
			m.mu.Unlock()
		}
	}
}

func (m *model) queue(resource, holder string, ttl time.Duration) (*lease, *place) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.at(resource)
	at := &place{holder: holder, ttl: ttl, due: l.until, handed: make(chan token.Grant, 1)}
	live := l.until.After(time.Now())
	switch {
	case live && m.same(l.holder, holder) && !m.has(holderWaitsForItself), !live && m.has(waitBarges):
		m.hand(l, resource, at)
		return l, at
	case m.has(lineFromItsEnd):
		l.line = slices.Insert(l.line, 0, at)
	case m.has(lineIsACrowd):
		l.line = slices.Insert(l.line, rand.IntN(len(l.line)+1), at)
	default:
		l.line = append(l.line, at)
	}
	if m.has(lineIsSortedByName) {
		slices.SortFunc(l.line, func(a, b *place) int { return strings.Compare(a.holder, b.holder) })
	}
	if !m.has(waitNeedsARelease) {
		m.dispatch(l)
	}
	return l, at
}

// dispatch hands what is free to the head of the line; the model is locked.
func (m *model) dispatch(l *lease) {
	if len(l.line) == 0 || l.until.After(time.Now()) || m.has(expiryStrandsTheLine) && l.number > 0 && !l.until.IsZero() {
		return
	}
	head := l.line[0]
	l.line = l.line[1:]
	m.hand(l, m.name(l), head)
	if m.has(handOverServesTwo) && len(l.line) > 0 {
		head, l.line = l.line[0], l.line[1:]
		m.hand(l, m.name(l), head)
	}
}

// free hands over or frees; the model is locked.
func (m *model) free(l *lease) {
	l.until, l.raised = time.Time{}, 0
	if !m.has(releaseWakesTheLine) && !m.has(lastHolderBarges) {
		m.dispatch(l)
	}
}

func (m *model) barges(l *lease, holder string) bool {
	return m.has(acquireBarges) || m.has(releaseWakesTheLine) || m.has(lastHolderBarges) && l.holder == holder
}

// expire is the visit of one in line.
func (m *model) expire(l *lease, at *place) {
	if m.has(renewedIsHandedOver) && slices.Contains(l.line, at) && at.due.Before(time.Now()) {
		l.until = time.Time{}
	}
	if !m.has(waitNeedsARelease) {
		m.dispatch(l)
	}
}
