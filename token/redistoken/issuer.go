package redistoken

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/token"
)

// Issuer is a [token.Issuer] on Redis, and a [token.Waiter],
// [token.BatchRenewer] and [token.Raiser]. It is safe for concurrent use; it
// must not be copied, nor its fields changed, after first use.
//
// Every method returns when its ctx does, with [context.Cause]; it may still
// take effect on the server after that. A ctx that has ended already sends
// nothing. The client's own retries are harmless, but for a Release that was
// sent again because its answer was lost: that is [token.ErrLost], though the
// resource was given back.
type Issuer struct {
	// Client is the server to use: see the package's comment for which. It
	// is required, and not closed by the Issuer.
	Client redis.UniversalClient
	// Prefix is what all keys and channels begin with; programs that share
	// locks share it. It must not contain braces. Empty means "fencepost".
	Prefix string
	// Replicas is how many replicas must have a grant before it counts: see
	// [ErrReplicas]. They are given a third of the ttl, at most a second, which
	// the client's ReadTimeout must exceed. Zero asks none.
	Replicas int

	names [buckets]atomic.Pointer[keys]
	pump  pump
	hall  hall
}

var _ token.Issuer = (*Issuer)(nil)

// Acquire implements [token.Issuer]. Of ttl only whole milliseconds count, and
// at least one is needed. Asked again by the same holder it grants a new
// number. Where other hands took the expiry from a lock, Remaining is the
// longest duration there is.
func (i *Issuer) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	ttl, k, err := i.request(resource, holder, ttl)
	if err != nil {
		return token.Grant{}, err
	}
	return i.acquire(ctx, k, holder, ttl)
}

func (i *Issuer) acquire(ctx context.Context, k *keys, holder string, ttl time.Duration) (token.Grant, error) {
	sent := time.Now()
	reply, err := i.run(ctx, acquireScript, k, holder, ttl.Milliseconds())
	if err != nil {
		return token.Grant{}, fmt.Errorf("redistoken: acquire %s: %w", k.resource, err)
	}
	number, refused, err := granted(reply, k.resource)
	switch {
	case err != nil:
		return token.Grant{}, fmt.Errorf("redistoken: acquire %s: %w", k.resource, err)
	case refused != nil:
		return token.Grant{}, &refused.HeldError
	}
	tok := token.Token{Resource: k.resource, Number: number, Holder: holder}
	return i.replicated(ctx, k, token.Grant{Token: tok, Until: sent.Add(ttl)}, ttl)
}

// request checks what is asked for.
func (i *Issuer) request(resource, holder string, ttl time.Duration) (time.Duration, *keys, error) {
	tok := token.Token{Resource: resource, Number: 1, Holder: holder}
	if err := tok.Check(); err != nil {
		return 0, nil, err
	}
	ttl, err := whole(ttl)
	if err != nil {
		return 0, nil, err
	}
	k, err := i.keys(resource)
	if err != nil {
		return 0, nil, fmt.Errorf("redistoken: acquire %s: %w", resource, err)
	}
	return ttl, k, nil
}

// Renew implements [token.Issuer]. Of ttl only whole milliseconds count, and
// at least one is needed.
func (i *Issuer) Renew(ctx context.Context, tok token.Token, ttl time.Duration) (time.Time, error) {
	ttl, err := whole(ttl)
	if err != nil {
		return time.Time{}, err
	}
	k, err := i.keys(tok.Resource)
	if err != nil {
		return time.Time{}, fmt.Errorf("redistoken: renew %s: %w", tok, err)
	}
	sent := time.Now()
	reply, err := i.run(ctx, renewScript, k, tok.Holder, ttl.Milliseconds())
	if err != nil {
		return time.Time{}, fmt.Errorf("redistoken: renew %s: %w", tok, err)
	}
	if err := i.renewed(k, tok, reply, sent.Add(ttl)); err != nil {
		return time.Time{}, err
	}
	return sent.Add(ttl), nil
}

// Release implements [token.Issuer].
func (i *Issuer) Release(ctx context.Context, tok token.Token) error {
	k, err := i.keys(tok.Resource)
	if err != nil {
		return fmt.Errorf("redistoken: release %s: %w", tok, err)
	}
	owned, err := i.pass(ctx, k, tok.Holder, nil)
	switch {
	case err != nil:
		return fmt.Errorf("redistoken: release %s: %w", tok, err)
	case !owned:
		return lost(tok)
	}
	return nil
}

// renewed reads what renew.lua answers.
func (i *Issuer) renewed(k *keys, tok token.Token, reply any, until time.Time) error {
	switch reply {
	case int64(1):
		i.hall.extend(k.lock, tok.Holder, until)
		return nil
	case int64(0):
		return lost(tok)
	}
	return fmt.Errorf("redistoken: renew %s: %w", tok, unexpected(reply))
}

// whole rounds ttl down to what Redis counts in.
func whole(ttl time.Duration) (time.Duration, error) {
	if ttl < time.Millisecond {
		return 0, fmt.Errorf("redistoken: ttl %s is less than 1ms", ttl)
	}
	return ttl.Truncate(time.Millisecond), nil
}
