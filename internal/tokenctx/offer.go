package tokenctx

import (
	"context"
	"sync"
)

// Offer is a lease that a simulation has acquired for code that takes the lock itself. The
// code gets no token before its own Hold, and none after it, as in production. Its first
// Hold takes the lease. A Hold that begins after that one has ended acquires anew.
type Offer[T comparable] struct {
	lease   *Entry[T]
	reclaim func(context.Context)

	mu    sync.Mutex
	taken bool // by a first Hold
	holds int  // Holds on the lease that have not ended
	gone  bool // reclaimed
}

// NewOffer hides the token of resource, which ctx carries under a lease, until a Hold takes
// the lease. It calls reclaim once, before the first Hold that acquires anew: reclaim
// releases the lease.
func NewOffer[T comparable](ctx context.Context, resource string, reclaim func(context.Context)) (context.Context, *Offer[T]) {
	o := &Offer[T]{lease: Find[T](ctx, resource), reclaim: reclaim}
	return New(ctx, Entry[T]{Resource: resource, Offer: o}), o
}

// FindLease is [Find] for a Hold, which can take a lease that is offered. It returns nil if
// the Hold must acquire, and the offer if there is one.
func FindLease[T comparable](ctx context.Context, resource string) (*Entry[T], *Offer[T]) {
	e := Find[T](ctx, resource)
	if e == nil || e.Offer == nil {
		return e, nil
	}
	o := e.Offer
	o.mu.Lock()
	over := o.gone || o.taken && o.holds == 0
	first := over && !o.gone
	o.gone = over
	o.mu.Unlock()
	if first {
		o.reclaim(ctx)
	}
	if over {
		return nil, o
	}
	return o.lease, o
}

// Enter returns the context of a Hold on the lease, which carries its token, and a function
// that the caller must call when the Hold has ended. If o is nil, it returns ctx.
func (o *Offer[T]) Enter(ctx context.Context) (inner context.Context, leave func()) {
	if o == nil {
		return ctx, func() {}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.taken = true
	o.holds++
	return New(ctx, *o.lease), func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.holds--
	}
}

// Use returns whether a Hold has taken the lease, and whether one is on it now.
func (o *Offer[T]) Use() (taken, held bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.taken, o.holds > 0
}
