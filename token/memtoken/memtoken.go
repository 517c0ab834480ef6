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
type Issuer struct {
	mu     sync.Mutex
	grants map[string]token.Grant
}

var _ token.Issuer = (*Issuer)(nil)

// Acquire implements [token.Issuer].
func (i *Issuer) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	if err := context.Cause(ctx); err != nil {
		return token.Grant{}, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	now := time.Now()
	last := i.grants[resource]
	if left := last.Until.Sub(now); left > 0 && last.Token.Holder != holder {
		return token.Grant{}, &token.HeldError{Resource: resource, Holder: last.Token.Holder, Remaining: left}
	}
	number := max(last.Token.Number+1, now.UnixMicro()/10)
	if number > token.MaxNumber {
		return token.Grant{}, token.ErrExhausted
	}
	tok, err := token.New(resource, number, holder)
	if err != nil {
		return token.Grant{}, err
	}
	return i.put(token.Grant{Token: tok, Until: now.Add(ttl)}), nil
}

// Renew implements [token.Issuer].
func (i *Issuer) Renew(ctx context.Context, tok token.Token, ttl time.Duration) (time.Time, error) {
	if err := context.Cause(ctx); err != nil {
		return time.Time{}, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	now := time.Now()
	grant, err := i.held(tok, now)
	if err != nil {
		return time.Time{}, err
	}
	grant.Until = now.Add(ttl)
	return i.put(grant).Until, nil
}

// Release implements [token.Issuer].
func (i *Issuer) Release(ctx context.Context, tok token.Token) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	grant, err := i.held(tok, time.Now())
	if err != nil {
		return err
	}
	grant.Until = time.Time{}
	i.put(grant)
	return nil
}

func (i *Issuer) held(tok token.Token, now time.Time) (token.Grant, error) {
	grant := i.grants[tok.Resource]
	if grant.Token.Holder != tok.Holder || !grant.Until.After(now) {
		return token.Grant{}, token.ErrLost
	}
	return grant, nil
}

func (i *Issuer) put(grant token.Grant) token.Grant {
	if i.grants == nil {
		i.grants = make(map[string]token.Grant)
	}
	i.grants[grant.Token.Resource] = grant
	return grant
}
