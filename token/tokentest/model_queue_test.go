package tokentest_test

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/fencepost/fencepost/token"
)

// place is a waiter's place in the queue.
type place struct {
	holder string
	ttl    time.Duration
	due    time.Time // for a flaw: the expiry of the lease that was held when this waiter joined
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
			time.Sleep(m.leaveDelay)
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
	case m.has(queueFromItsEnd):
		l.queue = slices.Insert(l.queue, 0, at)
	case m.has(queueIsACrowd):
		l.queue = slices.Insert(l.queue, rand.IntN(len(l.queue)+1), at)
	default:
		l.queue = append(l.queue, at)
	}
	if m.has(queueIsSortedByName) {
		slices.SortFunc(l.queue, func(a, b *place) int { return strings.Compare(a.holder, b.holder) })
	}
	if !m.has(waitNeedsARelease) {
		m.dispatch(l)
	}
	return l, at
}

// dispatch grants a free resource to the head of the queue. The caller holds m.mu.
func (m *model) dispatch(l *lease) {
	if len(l.queue) == 0 || l.until.After(time.Now()) || m.has(expiryStrandsTheQueue) && l.number > 0 && !l.until.IsZero() {
		return
	}
	head := l.queue[0]
	l.queue = l.queue[1:]
	m.hand(l, m.name(l), head)
	if m.has(handoffServesTwo) && len(l.queue) > 0 {
		head, l.queue = l.queue[0], l.queue[1:]
		m.hand(l, m.name(l), head)
	}
}

// free hands the resource over, or frees it. The caller holds m.mu.
func (m *model) free(l *lease) {
	l.until, l.raised = time.Time{}, 0
	if !m.has(releaseWakesAll) && !m.has(lastHolderBarges) {
		m.dispatch(l)
	}
}

func (m *model) barges(l *lease, holder string) bool {
	return m.has(acquireBarges) || m.has(releaseWakesAll) || m.has(lastHolderBarges) && l.holder == holder
}

// expire is a waiter's poll.
func (m *model) expire(l *lease, at *place) {
	if m.has(renewedIsHandedOver) && slices.Contains(l.queue, at) && at.due.Before(time.Now()) {
		l.until = time.Time{}
	}
	if !m.has(waitNeedsARelease) {
		m.dispatch(l)
	}
}

// leave removes a place from the queue, or passes on the grant that was made to it.
func (m *model) leave(ctx context.Context, resource string, l *lease, at *place) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.has(leavingKeepsThePlace) {
		l.queue = slices.DeleteFunc(l.queue, func(p *place) bool { return p == at })
	}
	held := &token.HeldError{Resource: resource, Holder: l.holder, Remaining: time.Until(l.until)}
	mine := l.holder == at.holder && l.until.After(time.Now())
	if mine && !m.has(leavingKeepsTheGrant) || m.has(leavingFreesWhatever) {
		m.free(l)
	}
	switch {
	case m.has(leavingHasNoCause):
		return errors.Join(ctx.Err(), held)
	case m.has(leavingNamesNone):
		return context.Cause(ctx)
	case m.has(leavingNamesItself):
		held.Holder = at.holder
	}
	return errors.Join(context.Cause(ctx), held)
}

// hand grants the lease to the head of the queue, and sends it the grant. The caller
// holds m.mu.
func (m *model) hand(l *lease, resource string, at *place) {
	accept := min(at.ttl, max(at.ttl/3, 250*time.Millisecond))
	if m.has(handoffIsBrief) {
		accept = 0
	}
	now, last := time.Now(), l.number
	switch {
	case m.has(handoffKeepsTheNumber) && last > 0:
	case m.has(handoffForgetsTheRecover) && last > now.UnixMicro()/10:
		l.number = now.UnixMicro() / 10
	default:
		l.number = m.mint(l)
	}
	if !m.has(handoffIsOnlySent) {
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
	case m.has(handoffPromisesTheTTL):
		return granted.Add(ttl)
	}
	return m.until(granted, accept)
}

// name returns the resource of a lease. The caller holds m.mu.
func (m *model) name(l *lease) string {
	for resource := range maps.Keys(m.leases) {
		if m.leases[resource] == l {
			return resource
		}
	}
	return ""
}
