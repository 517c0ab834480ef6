package partition_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fencepost/fencepost/simulations/proxy"
	"github.com/fencepost/fencepost/token"
)

// lock is what a holder has: a context that says when it is over.
type lock struct {
	ctx     context.Context
	release func(context.Context) error
}

// hold takes the lock by a Locker, as programs do.
func hold(ctx context.Context, iss token.Issuer, resource string) (lock, error) {
	lease, err := (&token.Locker{Issuer: iss, TTL: ttl, Margin: margin, Observer: quiet}).Acquire(ctx, resource)
	if err != nil {
		return lock{}, err
	}
	return lock{lease.Context(), lease.Release}, nil
}

// quiet is for renewals that are expected to fail.
var quiet = token.Observer{Endangered: func(context.Context, token.Token, time.Duration, error) {}}

type holding func(ctx context.Context, iss token.Issuer, resource string) (lock, error)

// round is a partition between a holder and its issuer, while a contender waits.
type round struct {
	resource  string
	fault     fault
	far, near token.Issuer
	proxies   []*proxy.Proxy
	hold      holding

	lead time.Duration // what play returned
	err  error
}

// play returns how long before the contender had the resource the holder's
// context had ended. Below zero it had not ended yet.
func (r *round) play(ctx context.Context) (lead time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	held, err := r.hold(ctx, r.far, r.resource)
	if err != nil {
		return 0, err
	}
	ended := make(chan time.Time, 1)
	context.AfterFunc(held.ctx, func() { ended <- time.Now() })
	contender := r.contend(ctx, held)
	time.Sleep(rand.N(ttl)) // anywhere between two renewals
	if held.ctx.Err() != nil {
		err = fmt.Errorf("lost before the partition: %w", context.Cause(held.ctx))
	}
	for _, p := range r.proxies {
		r.fault.set(p)
	}
	other := <-contender
	end := <-ended
	for _, p := range r.proxies {
		p.Heal(proxy.Both)
	}
	_ = held.release(ctx) // what is lost cannot be released
	lead = max(other.at.Sub(end), 0)
	if other.early {
		lead = -max(end.Sub(other.at), 1)
	}
	return lead, errors.Join(err, other.err)
}

// contender is who got the resource next.
type contender struct {
	at    time.Time
	early bool // the holder's context had not ended
	err   error
}

func (r *round) contend(ctx context.Context, held lock) <-chan contender {
	got := make(chan contender, 1)
	go func() {
		other, err := hold(ctx, r.near, r.resource)
		c := contender{at: time.Now(), early: held.ctx.Err() == nil, err: err}
		if err == nil {
			c.err = other.release(ctx)
		}
		got <- c
	}()
	return got
}
