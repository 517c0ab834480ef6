package redisquorum

import "context"

// regain locks again, in the background, where a node has forgotten a lease that
// a majority has renewed: else one restart of each node, one after the other,
// would end every lease that lasts. It acquires nothing: the lease is its
// holder's by what the majority says, and a node is counted when it renews the
// next time. After a release it comes too late to do harm: a minority is held
// for a ttl.
func (q *quorum) regain(ctx context.Context, c *charter, asked []renewal) {
	forgotten := map[*node][]renewal{}
	for _, r := range asked {
		if r.Err == nil {
			for _, n := range r.free {
				forgotten[n] = append(forgotten[n], r)
			}
		}
	}
	ctx = context.WithoutCancel(ctx)
	for n, renewals := range forgotten {
		locks := make([]*ballot, len(renewals))
		for i, r := range renewals { // here: the batch is the caller's when RenewAll has returned
			locks[i] = q.newBallot(c, r.Token.Resource, r.Token.Holder, r.ttl)
		}
		go func() {
			ctx, cancel := context.WithTimeout(ctx, introduction)
			defer cancel()
			for _, b := range locks {
				b.ask(ctx, n)
			}
		}()
	}
}
