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

	"github.com/fencepost/fencepost/token"
)

// Issuer is a [token.Issuer] in memory. The zero value is ready; it must not
// be copied. It keeps the last number of every resource it has ever granted.
// Waiters are served in the order in which they came, and a grant that is
// handed to one is whole.
type Issuer struct {
	mu    sync.Mutex
	locks map[string]*lock
}

var (
	_ token.Issuer       = (*Issuer)(nil)
	_ token.Waiter       = (*Issuer)(nil)
	_ token.BatchRenewer = (*Issuer)(nil)
	_ token.Raiser       = (*Issuer)(nil)
)

// Acquire implements [token.Issuer].
func (i *Issuer) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	if err := check(ctx, resource, holder); err != nil {
		return token.Grant{}, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	l := i.lock(resource)
	i.serve(l)
	now := time.Now()
	if !l.grant.Until.After(now) || l.grant.Token.Holder == holder {
		return l.give(waiter{holder: holder, ttl: ttl}, now)
	}
	return token.Grant{}, l.held(now)
}

// Renew implements [token.Issuer].
func (i *Issuer) Renew(ctx context.Context, tok token.Token, ttl time.Duration) (time.Time, error) {
	if err := context.Cause(ctx); err != nil {
		return time.Time{}, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	l, now := i.lock(tok.Resource), time.Now()
	if !l.isHeldBy(tok.Holder, now) {
		return time.Time{}, token.ErrLost
	}
	l.grant.Until = now.Add(ttl)
	i.serve(l) // it may end sooner now
	return l.grant.Until, nil
}

// RenewAll implements [token.BatchRenewer].
func (i *Issuer) RenewAll(ctx context.Context, batch []token.Renewal) {
	for n := range batch {
		r := &batch[n]
		r.Until, r.Err = i.Renew(ctx, r.Token, r.TTL)
	}
}

// Release implements [token.Issuer].
func (i *Issuer) Release(ctx context.Context, tok token.Token) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	l, now := i.lock(tok.Resource), time.Now()
	if !l.isHeldBy(tok.Holder, now) {
		return token.ErrLost
	}
	l.grant.Until = time.Time{}
	i.serve(l)
	return nil
}

// Raise implements [token.Raiser].
func (i *Issuer) Raise(ctx context.Context, resource string, number int64) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	l := i.lock(resource)
	switch {
	case number > clock(time.Now())+token.Poisoned:
		return token.ErrPoisoned
	case l.number >= number:
		return token.ErrLost
	}
	l.number = number
	return nil
}

// lock returns what is known of a resource. Under mu.
func (i *Issuer) lock(resource string) *lock {
	if i.locks == nil {
		i.locks = make(map[string]*lock)
	}
	l := i.locks[resource]
	if l == nil {
		l = &lock{resource: resource}
		i.locks[resource] = l
	}
	return l
}

// check refuses what no token can carry, and sends nothing for who has gone.
func check(ctx context.Context, resource, holder string) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return token.Token{Resource: resource, Number: 1, Holder: holder}.Check()
}
