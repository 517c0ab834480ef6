package lock

import (
	"container/heap"
	"context"
	"time"

	"github.com/fencepost/fencepost/internal/schedule"
	"github.com/fencepost/fencepost/token"
)

// CancelDelay exports cancelDelay.
const CancelDelay = cancelDelay

// NewHolder exports newHolder.
func NewHolder(host, name string) string { return newHolder(host, name) }

// HasRenewer reports whether leases of iss are being renewed.
func HasRenewer(iss token.Issuer) bool {
	renewers.mu.Lock()
	defer renewers.mu.Unlock()
	return renewers.renewers[iss] != nil
}

// AcquireOne exports acquireAny, which acquires for HoldAny.
func (l *Locker) AcquireOne(ctx context.Context, resources []string) (*Lease, error) {
	return l.acquireAny(ctx, resources)
}

// Timed is a lease in the schedule of a renewer.
type Timed struct {
	Name string
	TTL  time.Duration
	schedule.Lease
	Cancelled bool // its context has ended
}

func (s Timed) lease() *lease {
	ctx, cancel := context.WithCancelCause(context.Background())
	l := &lease{tok: token.Token{Resource: s.Name}, settings: settings{ttl: s.TTL}, ctx: ctx, cancel: cancel}
	if l.entry.Lease = s.Lease; s.Cancelled {
		cancel(context.Canceled)
	}
	return l
}

func namesOf(leases []*lease) (names []string) {
	for _, l := range leases {
		names = append(names, l.tok.Resource)
	}
	return names
}

// Batch is a batch of a renewer.
type Batch struct {
	Timeout time.Duration
	Leases  []string
}

// Batches returns how a renewer of iss groups leases that are due.
func Batches(iss token.Issuer, due []Timed) (all []Batch) {
	var leases []*lease
	for _, s := range due {
		leases = append(leases, s.lease())
	}
	for _, b := range newRenewer(iss).batches(0, leases) {
		all = append(all, Batch{b.timeout, namesOf(b.leases)})
	}
	return all
}

// Fired is what a renewer does when its timer fires, and what stays scheduled.
type Fired struct {
	Ended, Due, Scheduled []string
	FiresAt               time.Duration
}

// Fire returns what a renewer of iss with the leases does when its timer fires at now.
// It runs in fake time, and removes the leases.
func Fire(iss token.Issuer, now time.Duration, leases []Timed) (f Fired) {
	var r *renewer
	for _, s := range leases {
		r = renewers.enter(iss)
		heap.Push(&r.schedule, s.lease())
	}
	r.mu.Lock()
	r.timer = time.AfterFunc(time.Hour, r.fire)
	ended, due := r.popDue(now)
	r.resetTimer(now)
	f = Fired{Ended: namesOf(ended), Due: namesOf(due), FiresAt: r.firesAt}
	r.mu.Unlock()
	for len(r.schedule) > 0 {
		l := r.schedule[0]
		f.Scheduled = append(f.Scheduled, l.tok.Resource)
		r.remove(l)
	}
	return f
}

// FinishRenewal has the renewer receive the answer to a renewal of the lease.
func (l *Lease) FinishRenewal(answer token.Renewal) (hook func()) {
	return l.renewer.finishRenewal(l.lease, &answer)
}
