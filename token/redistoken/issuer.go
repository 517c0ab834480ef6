package redistoken

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/token"
)

// Issuer is a [token.Issuer] on Redis. It is safe for concurrent use; its
// fields must not change after first use.
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
	// Prefix is what all keys begin with; programs that share locks share it.
	// It must not contain braces. Empty means "fencepost".
	Prefix string
}

var _ token.Issuer = (*Issuer)(nil)

// Acquire implements [token.Issuer]. Of ttl only whole milliseconds count, and
// at least one is needed. Asked again by the same holder it grants a new
// number. Where other hands took the expiry from a lock, Remaining is the
// longest duration there is.
func (i *Issuer) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	tok := token.Token{Resource: resource, Number: 1, Holder: holder}
	if err := tok.Check(); err != nil {
		return token.Grant{}, err
	}
	ttl, err := whole(ttl)
	if err != nil {
		return token.Grant{}, err
	}
	sent := time.Now()
	reply, err := i.run(ctx, acquireScript, resource, holder, ttl.Milliseconds())
	if err != nil {
		return token.Grant{}, fmt.Errorf("redistoken: acquire %s: %w", resource, err)
	}
	if tok.Number, err = number(reply, resource); err != nil {
		return token.Grant{}, err
	}
	return token.Grant{Token: tok, Until: sent.Add(ttl)}, nil
}

// Renew implements [token.Issuer]. Of ttl only whole milliseconds count, and
// at least one is needed.
func (i *Issuer) Renew(ctx context.Context, tok token.Token, ttl time.Duration) (time.Time, error) {
	ttl, err := whole(ttl)
	if err != nil {
		return time.Time{}, err
	}
	sent := time.Now()
	reply, err := i.run(ctx, renewScript, tok.Resource, tok.Holder, ttl.Milliseconds())
	if err != nil {
		return time.Time{}, fmt.Errorf("redistoken: renew %s: %w", tok, err)
	}
	if err := owned(reply, tok); err != nil {
		return time.Time{}, err
	}
	return sent.Add(ttl), nil
}

// Release implements [token.Issuer].
func (i *Issuer) Release(ctx context.Context, tok token.Token) error {
	reply, err := i.run(ctx, releaseScript, tok.Resource, tok.Holder)
	if err != nil {
		return fmt.Errorf("redistoken: release %s: %w", tok, err)
	}
	return owned(reply, tok)
}

// whole rounds ttl down to what Redis counts in.
func whole(ttl time.Duration) (time.Duration, error) {
	if ttl < time.Millisecond {
		return 0, fmt.Errorf("redistoken: ttl %s is less than 1ms", ttl)
	}
	return ttl.Truncate(time.Millisecond), nil
}
