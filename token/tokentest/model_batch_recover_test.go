package tokentest_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fencepost/fencepost/token"
)

func (m *model) RenewAll(ctx context.Context, batch []token.Renewal) {
	if len(batch) == 0 && m.has(emptyBatchHangs) {
		<-ctx.Done()
	}
	first := slices.Clone(batch)
	for i := range batch {
		r := &batch[i]
		ttl := r.TTL
		if m.has(batchHasOneTTL) {
			ttl = first[0].TTL
		}
		r.Until, r.Err = m.renewInBatch(ctx, r.Token, ttl)
		if r.Err != nil && m.has(batchEndsAtAFailure) {
			return
		}
	}
	m.spoil(ctx, batch)
}

func (m *model) renewInBatch(ctx context.Context, tok token.Token, ttl time.Duration) (time.Time, error) {
	until, err := m.Renew(ctx, tok, ttl)
	switch {
	case ctx.Err() != nil && m.has(batchCancelledIsLost):
		return time.Time{}, token.ErrLost
	case !errors.Is(err, token.ErrLost):
		return until, err
	case m.has(batchAcquires):
		grant, err := m.Acquire(ctx, tok.Resource, tok.Holder, ttl)
		return grant.Until, unlessHeld(err)
	case m.has(batchIgnoresHolder):
		m.mu.Lock()
		defer m.mu.Unlock()
		l := m.at(tok.Resource)
		if l.until.After(time.Now()) {
			l.until = time.Now().Add(ttl)
			return l.until, nil
		}
	}
	return until, err
}

func unlessHeld(err error) error {
	if errors.Is(err, token.ErrHeld) {
		return token.ErrLost
	}
	return err
}

// spoil applies the flaw after all renewals of a batch.
func (m *model) spoil(ctx context.Context, batch []token.Renewal) {
	failed := slices.ContainsFunc(batch, func(r token.Renewal) bool { return errors.Is(r.Err, token.ErrLost) })
	switch {
	case failed && m.has(batchFailsAsOne):
		for i := range batch {
			batch[i].Err = token.ErrLost
		}
	case m.has(batchIsShifted) && len(batch) > 1:
		last := batch[len(batch)-1]
		for i := range batch {
			batch[i].Until, last.Until = last.Until, batch[i].Until
			batch[i].Err, last.Err = last.Err, batch[i].Err
		}
	case m.has(batchIsWrittenLater) && ctx.Err() != nil:
		time.AfterFunc(time.Microsecond, func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			batch[0].Err = ctx.Err()
		})
	}
}

func (m *model) Recover(ctx context.Context, resource string, number int64) error {
	switch err := context.Cause(ctx); {
	case err != nil && m.has(recoverCancelledIsLost):
		return token.ErrLost
	case err != nil && !m.has(contextIgnored):
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.at(resource)
	if number > m.bound() {
		return m.tooFarAhead(l, number)
	}
	known := l.number >= number
	if m.has(recoverInTwoSteps) {
		m.mu.Unlock()
		time.Sleep(rand.N(4 * time.Millisecond))
		m.mu.Lock()
	}
	switch {
	case known && m.has(recoverSaysNothing):
		return nil
	case known && !m.has(recoverLowers):
		return token.ErrLost
	}
	m.put(l, number)
	return nil
}

func (m *model) tooFarAhead(l *lease, number int64) error {
	if m.has(refusedRecoverRaises) {
		l.number = number
	}
	return token.ErrTooFarAhead
}

// bound returns the greatest number to which Recover raises.
func (m *model) bound() int64 {
	bound := token.MaxAhead
	switch {
	case m.has(recoverIsUnbounded):
		return token.MaxNumber
	case m.has(recoverBoundTooLow):
		bound /= 10
	}
	return time.Now().UnixMicro()/10 + bound
}

// put raises the number. The caller holds m.mu.
func (m *model) put(l *lease, number int64) {
	switch {
	case m.has(recoverIsIgnored):
	case m.has(recoverIsOneShort):
		l.number = number - 1
	case m.has(recoverIsOfTheLease):
		l.raised = number
	default:
		l.number = number
	}
	switch {
	case m.has(recoverReleases):
		l.until = time.Time{}
	case m.has(recoverTakes):
		l.holder, l.until = "recoverer", time.Now().Add(time.Minute)
	}
}
