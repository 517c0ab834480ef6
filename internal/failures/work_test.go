package failures_test

import (
	"context"
	"errors"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/simulations/history"
	"github.com/fencepost/fencepost/token"
)

// work takes the lock and writes, again and again, whatever happens.
func (r *round) work(ctx context.Context, iss token.Issuer) {
	locker := token.Locker{Issuer: iss, Name: writer(ctx), TTL: ttl, Observer: r.grants.observer()}
	if r.guarded {
		locker.Claim = r.claim
	}
	for ctx.Err() == nil {
		ask := r.recorder.Begin(history.Op{Kind: history.Acquire, Writer: writer(ctx), Resource: resource})
		_ = locker.Hold(ctx, resource, func(ctx context.Context) error {
			tok, err := token.FromContext(ctx, resource)
			ask.End(history.Accepted, func(op *history.Op) { op.Number, op.Holder = tok.Number, tok.Holder })
			for range 3 {
				err = errors.Join(err, r.write(ctx, tok))
				time.Sleep(2 * time.Millisecond)
			}
			return err
		})
		ask.End(history.Failed, nil) // where it had not been granted
		time.Sleep(5 * time.Millisecond)
	}
}

// pause is a holder that writes once and is not heard of for a while.
func (r *round) pause(iss token.Issuer) token.Token {
	r.Helper()
	const holder = "paused:1"
	var grant token.Grant
	require.Eventually(r, func() (granted bool) {
		var err error
		if line, ok := iss.(token.Waiter); ok {
			grant, err = line.Wait(r.Context(), resource, holder, ttl)
		} else {
			grant, err = iss.Acquire(r.Context(), resource, holder, ttl)
		}
		if err == nil { // a line's grant may be a short one
			_, err = iss.Renew(r.Context(), grant.Token, ttl)
		}
		return err == nil
	}, patience, 5*time.Millisecond, "it is never granted")
	r.grants.add(grant.Token)
	require.NoError(r, r.write(r.as("paused"), grant.Token))
	return grant.Token
}

// turns waits until so many holders more have written.
func (r *round) turns(n int) {
	r.Helper()
	before := len(r.all())
	require.Eventually(r, func() bool {
		seen := map[string]bool{}
		for _, w := range r.all()[before:] {
			seen[w.tok.Holder] = true
		}
		return len(seen) > n // one of them had begun before
	}, patience, time.Millisecond, "nobody writes")
}

// next waits for the first write after the servers were back, of somebody else
// than who was paused.
func (r *round) next(paused token.Token, back time.Time) (after time.Duration) {
	r.Helper()
	require.Eventually(r, func() bool {
		for _, w := range r.all() {
			if w.tok != paused && w.at.After(back) {
				after = w.at.Sub(back)
				return true
			}
		}
		return false
	}, patience, time.Millisecond, "nobody writes after the failure")
	return after
}
