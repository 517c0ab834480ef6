package redistoken

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/token"
)

var _ token.BatchRenewer = (*Issuer)(nil)

// mostRenewals is how many leases are renewed in one trip: more would keep the
// server from others for long.
const mostRenewals = 1000

// RenewAll implements [token.BatchRenewer], in one trip for each 1,000 leases
// and server. Of a ttl only whole milliseconds count, and at least one is
// needed.
func (i *Issuer) RenewAll(ctx context.Context, batch []token.Renewal) {
	if len(batch) == 1 { // newer clients have connections of their own for pipelines
		b := &batch[0]
		b.Until, b.Err = i.Renew(ctx, b.Token, b.TTL)
		return
	}
	for len(batch) > 0 {
		n := min(len(batch), mostRenewals)
		i.renewAll(ctx, batch[:n])
		batch = batch[n:]
	}
}

// renewal is one of the batch on its way.
type renewal struct {
	*token.Renewal
	keys *keys
	ttl  time.Duration
	call *call
}

func (i *Issuer) renewAll(ctx context.Context, batch []token.Renewal) {
	sent := time.Now()
	renewals := make([]renewal, 0, len(batch))
	for n := range batch {
		b := &batch[n]
		ttl, err := whole(b.TTL)
		k, invalid := i.keys(b.Token.Resource)
		if b.Err = err; err != nil {
			continue
		}
		if invalid != nil {
			b.Err = fmt.Errorf("redistoken: renew %s: %w", b.Token, invalid)
			continue
		}
		c := newCall(ctx, renewScript, k, b.Token.Holder, ttl.Milliseconds())
		renewals = append(renewals, renewal{Renewal: b, keys: k, ttl: ttl, call: c})
	}
	err := i.send(ctx, renewals)
	for _, r := range renewals {
		if err != nil {
			r.Err = fmt.Errorf("redistoken: renew %s: %w", r.Token, err)
			continue
		}
		i.answer(ctx, r, sent)
	}
}

// send returns when all have their answers, or with an error when ctx ends:
// then they may still be written to.
func (i *Issuer) send(ctx context.Context, renewals []renewal) error {
	if err := context.Cause(ctx); err != nil || len(renewals) == 0 {
		return err
	}
	_, err := await(ctx, func() (any, error) {
		first := make([]redis.Cmder, len(renewals))
		for n, r := range renewals {
			first[n] = &r.call.cmd
		}
		i.pipeline(ctx, first)
		var again []redis.Cmder
		for _, r := range renewals {
			// A server that has forgotten the script has not forgotten the lock.
			if r.call.forgotten(ctx) {
				again = append(again, r.call.again)
			}
		}
		i.pipeline(ctx, again)
		return nil, nil
	})
	return err
}

func (i *Issuer) answer(ctx context.Context, r renewal, sent time.Time) {
	reply, err := r.call.result()
	if err != nil {
		if cause := ended(ctx); cause != nil {
			err = fmt.Errorf("%w (%w)", cause, err)
		}
		r.Err = fmt.Errorf("redistoken: renew %s: %w", r.Token, err)
		return
	}
	until := sent.Add(r.ttl)
	if r.Err = i.renewed(r.keys, r.Token, reply, until); r.Err == nil {
		r.Until = until
	}
}
