package redisquorum

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// call runs a script that begins with member.lua at n. It answers an error for
// a node that is no member, and sees to it that a blank one recovers.
func (q *quorum) call(
	ctx context.Context, c *charter, n *node, script *redis.Script, keys []string, args ...any,
) reply {
	if n.behind.Load() >= mostBehind {
		return reply{err: fmt.Errorf("node %s: %w", n.name, errBehind)}
	}
	keys = append([]string{q.member, q.blank}, keys...)
	args = append([]any{c.markers[n.index], c.run()}, args...)
	r := read(script.Run(ctx, n.client, keys, args...).Result())
	switch r.word {
	case "blank":
		r = r.expect(2, "blank")
		if r.err == nil {
			blank := &blankError{note: r.text(1), left: q.quarantine() - milliseconds(r.integer(0))}
			r.err = blank
			q.nurse(ctx, c, n, blank)
		}
	case "stranger":
		r.err = q.stranger(n, c, fmt.Sprint(r.parts...))
	}
	if r.err != nil {
		r.err = fmt.Errorf("node %s: %w", n.name, r.err)
	}
	return r
}
