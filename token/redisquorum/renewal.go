package redisquorum

import (
	"fmt"
	"time"

	"github.com/fencepost/fencepost/token"
)

// renewal is what the nodes say of one.
type renewal struct {
	*token.Renewal
	ttl     time.Duration
	yes, no int
	free    []*node // of those that said no: where nobody has it
}

// renewals passes over those that cannot be asked for.
func (q *quorum) renewals(all []token.Renewal) (asked []renewal, keys []string, args []any) {
	for i := range all {
		r := renewal{Renewal: &all[i]}
		r.Until = time.Time{}
		if r.ttl, r.Err = q.whole(r.TTL); r.Err == nil {
			asked = append(asked, r)
			keys = append(keys, q.lock(r.Token.Resource))
			args = append(args, r.Token.Holder, r.ttl.Milliseconds())
		}
	}
	return asked, keys, args
}

// tallyRenewals reports whether every one of them is decided.
func (q *quorum) tallyRenewals(asked []renewal, n *node, r reply) bool {
	decided := true
	for i := range asked {
		is := &asked[i]
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

func (q *quorum) renewed(r renewal, sent time.Time, ended error, failed tally) (time.Time, error) {
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
