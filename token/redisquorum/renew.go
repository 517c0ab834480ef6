package redisquorum

import (
	"context"
	"fmt"
	"time"

	"github.com/fencepost/fencepost/token"
)

// batch bounds how many renewals one script does: a server does nothing else
// meanwhile.
const batch = 256

// Renew implements [token.Issuer]. Of ttl only whole milliseconds count, 10 at
// least and MaxTTL at most. A lease is renewed where a majority has renewed it,
// and lost where a majority says so. Everything between is another error: the
// lease may have been renewed by a minority, which others may have to wait for.
// Nodes that have recovered since are made to hold a renewed lease again.
func (i *Issuer) Renew(ctx context.Context, tok token.Token, ttl time.Duration) (time.Time, error) {
	one := []token.Renewal{{Token: tok, TTL: ttl}}
	i.RenewAll(ctx, one)
	return one[0].Until, one[0].Err
}

// RenewAll implements [token.BatchRenewer]: one request to each node for 256
// renewals.
func (i *Issuer) RenewAll(ctx context.Context, all []token.Renewal) {
	q, c, err := i.enter(ctx)
	for len(all) > 0 {
		n := min(len(all), batch)
		if err == nil {
			q.renew(ctx, c, all[:n])
		}
		for i := range all[:n] {
			r := &all[i]
			if r.Err == nil {
				r.Err = err
			}
			if r.Err != nil {
				r.Until, r.Err = time.Time{}, fmt.Errorf("redisquorum: renew %s: %w", r.Token, r.Err)
			}
		}
		all = all[n:]
	}
}

func (q *quorum) renew(ctx context.Context, c *charter, all []token.Renewal) {
	asked, keys, args := q.renewals(all)
	if len(asked) == 0 {
		return
	}
	bound := time.Duration(0)
	for _, r := range asked {
		bound = max(bound, r.ttl)
	}
	var failed tally
	sent := time.Now()
	ask := func(ctx context.Context, n *node) reply {
		return q.call(ctx, c, n, renewScript, keys, args...).expect(len(asked), "renewed")
	}
	ended := q.poll(ctx, bound, ask, func(n *node, r reply) bool {
		if r.err != nil {
			failed.fail(r.err)
			return len(failed.errs) > len(q.nodes)-q.need
		}
		return q.tallyRenewals(asked, n, r)
	})
	for _, r := range asked {
		r.Until, r.Err = q.renewed(r, sent, ended, failed)
	}
	q.regain(ctx, c, asked)
}
