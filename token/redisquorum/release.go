package redisquorum

import (
	"context"
	"fmt"

	"github.com/fencepost/fencepost/token"
)

// Release implements [token.Issuer]. The error is nil when a majority of the
// nodes has answered and one of them, at least, had been held: its holder has no
// majority any more. What nodes that did not answer still hold ends with the ttl.
func (i *Issuer) Release(ctx context.Context, tok token.Token) error {
	q, c, err := i.enter(ctx)
	if err == nil {
		err = q.release(ctx, c, tok)
	}
	if err != nil {
		return fmt.Errorf("redisquorum: release %s: %w", tok, err)
	}
	return nil
}

func (q *quorum) release(ctx context.Context, c *charter, tok token.Token) error {
	var failed tally
	yes, no, keys := 0, 0, []string{q.lock(tok.Resource)}
	ask := func(ctx context.Context, n *node) reply {
		return q.call(ctx, c, n, releaseScript, keys, tok.Holder).expect(1, "released")
	}
	err := q.poll(ctx, q.maxTTL, ask, func(_ *node, r reply) bool {
		switch {
		case r.err != nil:
			failed.fail(r.err)
		case r.integer(0) == 1:
			yes++
		default:
			no++
		}
		return max(yes, no) >= q.need || len(failed.errs) > len(q.nodes)-q.need
	})
	switch {
	case no >= q.need:
		return token.ErrLost
	case yes+no >= q.need:
		return nil
	case err != nil:
		return err
	}
	return failed.noMajority(q, yes+no)
}
