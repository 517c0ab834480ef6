package redisquorum

import (
	"context"
	"fmt"
	"time"

	"github.com/fencepost/fencepost/token"
)

// maxBatch bounds how many leases one script renews, since the server runs nothing else
// in the meantime.
const maxBatch = 256

// Renew implements [token.Issuer]. The ttl is rounded down to whole milliseconds. It must
// be at least 10 ms and at most MaxTTL. A lease is renewed if a majority has renewed it,
// and lost if a majority reports that. In all other cases Renew returns another error: a
// minority may have renewed the lease, and delay other callers. After a successful
// renewal, nodes that have forgotten the lease lock it again.
func (i *Issuer) Renew(ctx context.Context, tok token.Token, ttl time.Duration) (time.Time, error) {
	one := []token.Renewal{{Token: tok, TTL: ttl}}
	i.RenewAll(ctx, one)
	return one[0].Until, one[0].Err
}

// RenewAll implements [token.BatchRenewer]. It sends each node one request for every 256
// renewals.
func (i *Issuer) RenewAll(ctx context.Context, all []token.Renewal) {
	q, c, err := i.begin(ctx)
	for len(all) > 0 {
		n := min(len(all), maxBatch)
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

func (q *quorum) renew(ctx context.Context, c *config, all []token.Renewal) {
	valid, keys, args := q.renewals(all)
	if len(valid) == 0 {
		return
	}
	bound := time.Duration(0)
	for _, r := range valid {
		bound = max(bound, r.ttl)
	}
	sent := time.Now()
	request := func(ctx context.Context, n *node) reply {
		return q.call(ctx, c, n, renewScript, keys, args...).expect(len(valid), "renewed")
	}
	failed, ended := q.collect(ctx, bound, request, func(n *node, r reply) (bool, error) {
		return q.countRenewals(valid, n, r), nil
	})
	for _, r := range valid {
		r.Until, r.Err = q.renewed(r, sent, ended, failed)
	}
	q.reacquire(ctx, c, valid)
}

// renewal is one element of a batch with the nodes' replies.
type renewal struct {
	*token.Renewal
	ttl     time.Duration
	yes, no int
	free    []*node // the nodes at which the lock is free; they are counted in no too
}

// renewals returns the valid elements of all, and sets Err of the others.
func (q *quorum) renewals(all []token.Renewal) (valid []renewal, keys []string, args []any) {
	for i := range all {
		r := renewal{Renewal: &all[i]}
		r.Until = time.Time{}
		if r.ttl, r.Err = q.wholeMilliseconds(r.TTL); r.Err == nil {
			valid = append(valid, r)
			keys = append(keys, q.lock(r.Token.Resource))
			args = append(args, r.Token.Holder, r.ttl.Milliseconds())
		}
	}
	return valid, keys, args
}

// countRenewals counts the reply of n. It reports whether every renewal is decided.
func (q *quorum) countRenewals(batch []renewal, n *node, r reply) bool {
	decided := true
	for i := range batch {
		is := &batch[i]
		switch r.integer(i) {
		case 1:
			is.yes++
		case -1:
			is.free = append(is.free, n)
			fallthrough
		default:
			is.no++
		}
		decided = decided && max(is.yes, is.no) >= q.need
	}
	return decided
}

func (q *quorum) renewed(r renewal, sent time.Time, ended error, failed failures) (time.Time, error) {
	switch {
	case r.yes >= q.need:
		return sent.Add(r.ttl - drift(r.ttl)), nil
	case r.no >= q.need:
		return time.Time{}, token.ErrLost
	case ended != nil:
		return time.Time{}, ended
	}
	err := failed.noMajority(q, r.yes+r.no)
	return time.Time{}, fmt.Errorf("renewed by %d of %d nodes: %w", r.yes, len(q.nodes), err)
}

// reacquire locks again, in the background, at each node that has forgotten a lease that
// a majority has renewed. Without it, restarts of all nodes, one after the other, would
// end every lease.
//
// It grants nothing: the majority has confirmed the holder's lease, and the node's lock
// counts from the next renewal on. If the request arrives after a release, it does no
// harm: it locks a minority for one ttl.
func (q *quorum) reacquire(ctx context.Context, c *config, batch []renewal) {
	forgotten := map[*node][]renewal{}
	for _, r := range batch {
		if r.Err == nil {
			for _, n := range r.free {
				forgotten[n] = append(forgotten[n], r)
			}
		}
	}
	ctx = context.WithoutCancel(ctx)
	for n, renewals := range forgotten {
		attempts := make([]*attempt, len(renewals))
		for i, r := range renewals { // before RenewAll returns: the caller may then reuse the batch
			attempts[i] = q.newAttempt(c, r.Token.Resource, r.Token.Holder, r.ttl)
		}
		go func() {
			ctx, cancel := context.WithTimeout(ctx, q.request)
			defer cancel()
			for _, a := range attempts {
				a.lockNode(ctx, n)
			}
		}()
	}
}

// Release implements [token.Issuer]. It returns nil if a majority of the nodes has
// replied and at least one of them had the lock, since the holder then has no majority
// any more. The lock of a node that did not reply ends with the ttl.
func (i *Issuer) Release(ctx context.Context, tok token.Token) error {
	q, c, err := i.begin(ctx)
	if err == nil {
		err = q.release(ctx, c, tok)
	}
	if err != nil {
		return fmt.Errorf("redisquorum: release %s: %w", tok, err)
	}
	return nil
}

func (q *quorum) release(ctx context.Context, c *config, tok token.Token) error {
	yes, no, keys := 0, 0, []string{q.lock(tok.Resource)}
	request := func(ctx context.Context, n *node) reply {
		return q.call(ctx, c, n, releaseScript, keys, tok.Holder).expect(1, "released")
	}
	failed, err := q.collect(ctx, q.maxTTL, request, func(_ *node, r reply) (bool, error) {
		if r.integer(0) == 1 {
			yes++
		} else {
			no++
		}
		return max(yes, no) >= q.need, nil
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
