package lock

import (
	"container/heap"
	"context"
	"errors"
	"math/bits"
	"sync"
	"time"

	"github.com/fencepost/fencepost/internal/schedule"
	"github.com/fencepost/fencepost/token"
)

// renewer renews all leases of one issuer, and ends those that could not be renewed in
// time. It uses one timer, set to the next action in its schedule: a goroutine and a
// timer for each lease cost ten times as much. Each batch of renewals runs on its own
// goroutine, so that a call that blocks cannot delay the end of a lease.
type renewer struct {
	issuer token.Issuer
	leases int       // how many leases use it; guarded by the registry's mutex
	epoch  time.Time // the origin of its times

	mu       sync.Mutex
	schedule renewalHeap
	timer    *time.Timer
	firesAt  time.Duration // when the timer fires
}

func newRenewer(iss token.Issuer) *renewer {
	return &renewer{issuer: iss, epoch: time.Now(), firesAt: schedule.Never}
}

func (r *renewer) now() time.Duration { return time.Since(r.epoch) }

// add schedules a lease that was granted until the given time.
func (r *renewer) add(l *lease, until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if l.entry.Stop = schedule.Never; l.holdAtMost > 0 && l.holdAtMost < schedule.Never-now {
		l.entry.Stop = now + l.holdAtMost
	}
	l.entry.Extend(now, until.Sub(r.epoch), l.safetyMargin)
	heap.Push(&r.schedule, l)
	r.resetTimer(now)
}

// remove unschedules a lease, if it is still scheduled. It returns a channel that is
// closed when the lease's last renewal has returned, or nil if no renewal was sent.
func (r *renewer) remove(l *lease) (over <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unschedule(l)
	return l.entry.renewal
}

func (r *renewer) unschedule(l *lease) {
	if l.entry.index == notScheduled {
		return
	}
	heap.Remove(&r.schedule, l.entry.index)
	renewers.leave(r)
	if len(r.schedule) == 0 {
		r.timer.Stop()
		r.firesAt = schedule.Never
	}
}

// resetTimer sets the timer earlier if an action is due before it fires.
func (r *renewer) resetTimer(now time.Duration) {
	if len(r.schedule) == 0 || r.schedule[0].entry.Next >= r.firesAt {
		return
	}
	r.firesAt = r.schedule[0].entry.Next
	if r.timer == nil {
		r.timer = time.AfterFunc(r.firesAt-now, r.fire)
		return
	}
	r.timer.Reset(r.firesAt - now)
}

// fire ends the leases whose time is over and renews those that are due.
func (r *renewer) fire() {
	r.mu.Lock()
	now := r.now()
	r.firesAt = schedule.Never
	ended, due := r.popDue(now)
	r.resetTimer(now)
	batches := r.batches(now, due) // under mu, so that a Release sees the renewal that it must wait for
	r.mu.Unlock()
	for _, l := range ended {
		l.lose(l.endCause(now))
	}
	for _, batch := range batches {
		go batch.renew()
	}
}

// popDue unschedules the leases that have ended, and marks those that are due as
// being renewed.
func (r *renewer) popDue(now time.Duration) (ended, due []*lease) {
	for len(r.schedule) > 0 {
		l := r.schedule[0]
		switch {
		case l.ctx.Err() != nil: // its context has ended, and it was not released
			r.unschedule(l)
		case l.entry.End() <= now:
			r.unschedule(l)
			ended = append(ended, l)
		case l.entry.Due(now, l.ttl):
			l.entry.RenewalSent()
			r.reschedule(l)
			due = append(due, l)
		default:
			return ended, due
		}
	}
	return ended, due
}

// reschedule restores the heap after l's next action was changed.
func (r *renewer) reschedule(l *lease) { heap.Fix(&r.schedule, l.entry.index) }

// renewers holds the renewers that have leases. A renewer without leases is removed, so
// that an unused issuer can be garbage-collected.
var renewers = renewerRegistry{renewers: map[token.Issuer]*renewer{}}

type renewerRegistry struct {
	mu       sync.Mutex
	renewers map[token.Issuer]*renewer
}

// enter returns the renewer of an issuer and counts one more lease. If the issuer is not
// comparable, each lease gets its own renewer.
func (g *renewerRegistry) enter(iss token.Issuer) *renewer {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !isComparable(iss) {
		return newRenewer(iss)
	}
	r := g.renewers[iss]
	if r == nil {
		r = newRenewer(iss)
		g.renewers[iss] = r
	}
	r.leases++
	return r
}

// leave counts one lease less, and removes the renewer if it has none left.
func (g *renewerRegistry) leave(r *renewer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !isComparable(r.issuer) {
		return // this renewer served one lease and is not registered
	}
	if r.leases--; r.leases == 0 {
		delete(g.renewers, r.issuer)
	}
}

const notScheduled = -1 // the index of a lease that is in no renewer's schedule

// renewalEntry is a lease's entry in the schedule of its renewer. Its times are relative
// to the renewer's epoch.
type renewalEntry struct {
	schedule.Lease
	index   int           // in the heap; notScheduled if the lease is not in it
	renewal chan struct{} // closed when the last renewal has returned; nil before the first
	err     error         // of the last renewal that failed; nil if none did
}

// renewalHeap implements [heap.Interface]. The lease whose next action is due first is at
// the front.
type renewalHeap []*lease

func (s renewalHeap) Len() int           { return len(s) }
func (s renewalHeap) Less(i, j int) bool { return s[i].entry.Next < s[j].entry.Next }

func (s renewalHeap) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].entry.index, s[j].entry.index = i, j
}

// Push implements [heap.Interface].
func (s *renewalHeap) Push(x any) {
	l := x.(*lease)
	l.entry.index = len(*s)
	*s = append(*s, l)
}

// Pop implements [heap.Interface].
func (s *renewalHeap) Pop() any {
	old := *s
	l := old[len(old)-1]
	old[len(old)-1], *s = nil, old[:len(old)-1]
	l.entry.index = notScheduled
	return l
}

var errRenewalLate = errors.New("lock: the renewal had expired when its reply arrived, or got no reply")

// renewalBatch is a set of leases that are renewed in one call.
type renewalBatch struct {
	renewer *renewer
	timeout time.Duration // the shortest of the leases' timeouts
	leases  []*lease
	done    chan struct{} // closed when the call has returned
}

// batches groups leases whose renewal timeouts are within a factor of two of each other.
// A lease with little time left would cut the call short for the others in its batch, or
// would wait for the longer call before its own next attempt. If the issuer is not a
// [token.BatchRenewer], each lease is a batch.
func (r *renewer) batches(now time.Duration, due []*lease) []*renewalBatch {
	var all []*renewalBatch
	byTimeout := map[int]*renewalBatch{} // by the binary logarithm
	_, many := r.issuer.(token.BatchRenewer)
	for _, l := range due {
		timeout := l.entry.RenewalTimeout(now, l.ttl)
		b := byTimeout[bits.Len64(uint64(timeout))]
		if b == nil || !many {
			b = &renewalBatch{renewer: r, timeout: timeout, done: make(chan struct{})}
			byTimeout[bits.Len64(uint64(timeout))] = b
			all = append(all, b)
		}
		b.timeout = min(b.timeout, timeout)
		b.leases = append(b.leases, l)
		l.entry.renewal = b.done
	}
	return all
}

// renew sends the batch and records the results. A Release does not cancel the call,
// since cancelling it would cost its connection.
func (b *renewalBatch) renew() {
	renewals := make([]token.Renewal, len(b.leases))
	for i, l := range b.leases {
		renewals[i] = token.Renewal{Token: l.tok, TTL: l.ttl}
	}
	ctx, cancel := context.WithTimeout(b.context(), b.timeout)
	defer cancel()
	if many, ok := b.renewer.issuer.(token.BatchRenewer); ok {
		many.RenewAll(ctx, renewals)
	} else {
		renewals[0].Until, renewals[0].Err = b.renewer.issuer.Renew(ctx, renewals[0].Token, renewals[0].TTL)
	}
	close(b.done)
	hooks := make([]func(), len(b.leases))
	for i, l := range b.leases {
		hooks[i] = b.renewer.finishRenewal(l, &renewals[i])
	}
	for _, hook := range hooks { // last, since a slow hook must not delay the other leases
		hook()
	}
}

// context returns a context with the values of the lease's context if the batch has one
// lease, and a background context if it has more.
func (b *renewalBatch) context() context.Context {
	if len(b.leases) > 1 {
		return context.Background()
	}
	return context.WithoutCancel(b.leases[0].ctx)
}

// finishRenewal records the result of one renewal, and returns the hook to call. If the
// lease has ended in the meantime, it stays lost even if the renewal succeeded.
func (r *renewer) finishRenewal(l *lease, answer *token.Renewal) (hook func()) {
	if answer.Err == nil && !answer.Until.After(time.Now()) {
		answer.Err = errRenewalLate
	}
	r.mu.Lock()
	now := r.now()
	scheduled, lost := l.entry.index != notScheduled, errors.Is(answer.Err, token.ErrLost)
	switch {
	case !scheduled:
	case lost:
		r.unschedule(l)
	case answer.Err != nil:
		l.entry.RenewalFailed(now, l.ttl)
		l.entry.err = answer.Err
		r.reschedule(l)
	default:
		l.entry.Extend(now, answer.Until.Sub(r.epoch), l.safetyMargin)
		r.reschedule(l)
	}
	failures, left := l.entry.Failures, l.entry.End()-now
	r.resetTimer(now)
	r.mu.Unlock()
	switch {
	case !scheduled:
	case lost:
		l.lose(answer.Err)
	case answer.Err == nil:
		return func() { l.hooks.renewed(l, left) }
	case left > 0:
		return func() { l.hooks.renewFailed(l, left, answer.Err, failures) }
	}
	return func() {}
}
