package token

import (
	"context"
	"errors"
	"math/bits"
	"time"
)

var errOver = errors.New("token: the renewal ended before its answer was there, or there was none")

// batch is a number of leases that are renewed together.
type batch struct {
	wheel  *wheel
	bound  time.Duration // the least of theirs
	leases []*lease
	done   chan struct{} // closed when all are answered
}

// batches puts together what may take equally long, within a factor of two: a
// lease that has little time left must not cut off the others, nor wait with
// its second try for theirs. An issuer that cannot renew many gets one each.
func (w *wheel) batches(now time.Duration, due []*lease) []*batch {
	var all []*batch
	like := map[int]*batch{}
	_, many := w.issuer.(BatchRenewer)
	for _, l := range due {
		bound := l.spoke.Bound(now, l.ttl)
		b := like[bits.Len64(uint64(bound))]
		if b == nil || !many {
			b = &batch{wheel: w, bound: bound, done: make(chan struct{})}
			like[bits.Len64(uint64(bound))] = b
			all = append(all, b)
		}
		b.bound = min(b.bound, bound)
		b.leases = append(b.leases, l)
		l.spoke.renewal = b.done
	}
	return all
}

// renew asks the issuer, and puts down what it says. The question is not cut
// off by a Release, since that would cost the connection it is on.
func (b *batch) renew() {
	renewals := make([]Renewal, len(b.leases))
	for i, l := range b.leases {
		renewals[i] = Renewal{Token: l.tok, TTL: l.ttl}
	}
	ctx, cancel := context.WithTimeout(b.context(), b.bound)
	defer cancel()
	if many, ok := b.wheel.issuer.(BatchRenewer); ok {
		many.RenewAll(ctx, renewals)
	} else {
		renewals[0].Until, renewals[0].Err = b.wheel.issuer.Renew(ctx, renewals[0].Token, renewals[0].TTL)
	}
	close(b.done)
	tell := make([]func(), len(b.leases))
	for i, l := range b.leases {
		tell[i] = b.wheel.answered(l, &renewals[i])
	}
	for _, hook := range tell { // last: a slow one must not hold up the other leases
		hook()
	}
}

// context carries what a lease's does, where it is one lease's.
func (b *batch) context() context.Context {
	if len(b.leases) > 1 {
		return context.Background()
	}
	return context.WithoutCancel(b.leases[0].ctx)
}

// answered puts down what became of one renewal. A lease that has ended in the
// meantime stays so, though the renewal came through: lost is lost. What the
// observer is to be told comes back.
func (w *wheel) answered(l *lease, r *Renewal) (tell func()) {
	if r.Err == nil && !r.Until.After(time.Now()) {
		r.Err = errOver
	}
	w.mu.Lock()
	now := w.now()
	on, lost := l.spoke.place != off, errors.Is(r.Err, ErrLost)
	switch {
	case !on:
	case lost:
		w.drop(l)
	case r.Err != nil:
		l.spoke.Fail(now, l.ttl)
		l.spoke.err = r.Err
		w.move(l)
	default:
		l.spoke.Wind(now, r.Until.Sub(w.epoch), l.margin)
		w.move(l)
	}
	failures, left := l.spoke.Failures, l.spoke.End()-now
	w.set(now)
	w.mu.Unlock()
	switch {
	case !on:
	case lost:
		l.lose(r.Err)
	case r.Err == nil:
		return func() { l.observer.renewed(l, left) }
	case left > 0:
		return func() { l.observer.endangered(l, left, r.Err, failures) }
	}
	return func() {}
}
