// Package memtoken grants tokens from memory. It is the reference that the
// other issuers are compared with, and an issuer for tests and for resources
// that live in one process. Its memory ends with the process; since its
// numbers start at the clock they rise across restarts all the same, as long
// as the machine's clock does.
package memtoken

import (
	"context"
	"sync"
	"time"

	"github.com/fencepost/fencepost/internal/lock"
	"github.com/fencepost/fencepost/token"
)

// Issuer is a [token.Issuer] in memory. The zero value is ready; it must not
// be copied. It keeps the last number of every resource it has ever granted.
// Waiters are served in the order in which they came, and a grant that is
// handed to one is whole.
type Issuer struct {
	mu    sync.Mutex
	locks map[string]*watched
}

var (
	_ token.Issuer       = (*Issuer)(nil)
	_ token.Waiter       = (*Issuer)(nil)
	_ token.BatchRenewer = (*Issuer)(nil)
	_ token.Raiser       = (*Issuer)(nil)
)

// Acquire implements [token.Issuer].
func (i *Issuer) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (grant token.Grant, err error) {
	if err := check(ctx, resource, holder); err != nil {
		return grant, err
	}
	i.decide(resource, func(l *watched, now time.Time) { grant, err = l.Acquire(holder, ttl, now) })
	return grant, err
}

// Renew implements [token.Issuer].
func (i *Issuer) Renew(ctx context.Context, tok token.Token, ttl time.Duration) (until time.Time, err error) {
	if err := context.Cause(ctx); err != nil {
		return until, err
	}
	i.decide(tok.Resource, func(l *watched, now time.Time) { until, err = l.Renew(tok.Holder, ttl, now) })
	return until, err
}

// RenewAll implements [token.BatchRenewer].
func (i *Issuer) RenewAll(ctx context.Context, batch []token.Renewal) {
	for n := range batch {
		r := &batch[n]
		r.Until, r.Err = i.Renew(ctx, r.Token, r.TTL)
	}
}

// Release implements [token.Issuer].
func (i *Issuer) Release(ctx context.Context, tok token.Token) (err error) {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	i.decide(tok.Resource, func(l *watched, now time.Time) { err = l.Release(tok.Holder, now) })
	return err
}

// Raise implements [token.Raiser].
func (i *Issuer) Raise(ctx context.Context, resource string, number int64) (err error) {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	i.decide(resource, func(l *watched, now time.Time) { err = l.Raise(number, now) })
	return err
}

// decide asks a resource's lock for a decision, alone.
func (i *Issuer) decide(resource string, ask func(l *watched, now time.Time)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.locks == nil {
		i.locks = make(map[string]*watched)
	}
	l := i.locks[resource]
	if l == nil {
		l = &watched{Lock: lock.Lock{Resource: resource}}
		i.locks[resource] = l
	}
	now := time.Now()
	ask(l, now)
	l.watch(now, func() {
		i.decide(resource, func(l *watched, now time.Time) { l.Serve(now) })
	})
}

// check refuses what no token can carry, and sends nothing for who has gone.
func check(ctx context.Context, resource, holder string) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return token.Token{Resource: resource, Number: 1, Holder: holder}.Check()
}
