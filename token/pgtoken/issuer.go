package pgtoken

import (
	"context"
	"fmt"
	"time"

	"github.com/fencepost/fencepost/token"
)

// Issuer is a [token.Issuer] on PostgreSQL. It is as safe for concurrent use as
// its DB; its fields must not change after first use.
//
// Where ctx ends a call, the error is [context.Cause] and the connection is
// lost; the call may still have taken effect on the server.
type Issuer struct {
	// DB is required. It is not closed by the Issuer.
	DB DB
	// Schema is where the migrations put their functions; programs that share
	// locks share it. It is quoted: any name will do. Empty means "fencepost".
	Schema string
}

var _ token.Issuer = (*Issuer)(nil)

// Acquire implements [token.Issuer]. Of ttl only whole microseconds count, and
// at least one is needed. Asked again by the holder who has the resource it
// returns the same number.
func (i *Issuer) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	tok := token.Token{Resource: resource, Number: 1, Holder: holder}
	if err := tok.Check(); err != nil {
		return token.Grant{}, err
	}
	if err := check(ttl); err != nil {
		return token.Grant{}, err
	}
	var granted bool
	var remaining, waited microseconds
	sent := time.Now()
	err := i.call(ctx, acquireSQL, []any{resource, holder, ttl.Microseconds()},
		&granted, &tok.Number, &tok.Holder, &remaining, &waited)
	switch {
	case err != nil:
		return token.Grant{}, fmt.Errorf("pgtoken: acquire %s: %w", resource, err)
	case !granted:
		return token.Grant{}, &token.HeldError{Resource: resource, Holder: tok.Holder, Remaining: remaining.duration()}
	}
	return token.Grant{Token: tok, Until: until(sent, waited, ttl)}, nil
}

// Renew implements [token.Issuer]. Of ttl only whole microseconds count, and
// at least one is needed.
func (i *Issuer) Renew(ctx context.Context, tok token.Token, ttl time.Duration) (time.Time, error) {
	if err := check(ttl); err != nil {
		return time.Time{}, err
	}
	var renewed bool
	var waited microseconds
	sent := time.Now()
	err := i.call(ctx, renewSQL, []any{tok.Resource, tok.Holder, ttl.Microseconds()}, &renewed, &waited)
	if err == nil && !renewed {
		err = token.ErrLost
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("pgtoken: renew %s: %w", tok, err)
	}
	return until(sent, waited, ttl), nil
}

// Release implements [token.Issuer].
func (i *Issuer) Release(ctx context.Context, tok token.Token) error {
	var released bool
	err := i.call(ctx, releaseSQL, []any{tok.Resource, tok.Holder}, &released)
	if err == nil && !released {
		err = token.ErrLost
	}
	if err != nil {
		return fmt.Errorf("pgtoken: release %s: %w", tok, err)
	}
	return nil
}

func check(ttl time.Duration) error {
	if ttl < time.Microsecond {
		return fmt.Errorf("pgtoken: ttl %s is less than 1µs", ttl)
	}
	return nil
}
