package redisquorum

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fencepost/fencepost/token"
)

// insists is for how long an Acquire begins anew after votes that nobody won, or
// that took too long.
const insists = time.Second

// Acquire implements [token.Issuer]. Of ttl only whole milliseconds count, 10 at
// least and MaxTTL at most. Asked again by the same holder it grants a new
// number. Where several ask at once and none gets a majority, it asks again by
// itself, for up to a second; what it was granted by a minority it gives back in the
// background. Remaining is what the longest of the holder's locks has left.
func (i *Issuer) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	if err := (token.Token{Resource: resource, Number: 1, Holder: holder}).Check(); err != nil {
		return token.Grant{}, err
	}
	grant, err := i.acquire(ctx, resource, holder, ttl)
	if err != nil && !errors.Is(err, token.ErrHeld) {
		err = fmt.Errorf("redisquorum: acquire %s: %w", resource, err)
	}
	return grant, err
}

func (i *Issuer) acquire(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	q, c, err := i.enter(ctx)
	if err != nil {
		return token.Grant{}, err
	}
	if ttl, err = q.whole(ttl); err != nil {
		return token.Grant{}, err
	}
	for times, start := time.Duration(1), time.Now(); ; times *= 2 {
		b := q.newBallot(c, resource, holder, ttl)
		grant, err := b.cast(ctx)
		pause := times * (b.pause/2 + rand.N(b.pause+1))
		if err == nil || b.pause == 0 || time.Since(start)+pause > insists {
			return grant, err
		}
		select {
		case <-ctx.Done():
			return token.Grant{}, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// whole rounds ttl down to what Redis counts in.
func (q *quorum) whole(ttl time.Duration) (time.Duration, error) {
	if ttl < leastTTL || ttl > q.maxTTL {
		return 0, fmt.Errorf("ttl %s is not between %s and the quorum's MaxTTL %s", ttl, leastTTL, q.maxTTL)
	}
	return ttl.Truncate(time.Millisecond), nil
}
