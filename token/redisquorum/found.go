package redisquorum

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
)

func (q *quorum) bootstrap(ctx context.Context, keeps bool) error {
	sights, err := q.survey(ctx, "")
	if err == nil && traces(sights) {
		// One that looks new has lost its memory as well: it is noted now.
		sights, err = q.survey(ctx, "not new")
	}
	if err != nil {
		return err
	}
	c, err := q.draw(sights, keeps)
	if err != nil {
		return err
	}
	if err := q.rested(sights); err != nil {
		return err
	}
	return q.found(ctx, c.settled(), sights)
}

// draw makes a charter, or takes that of the members there are.
func (q *quorum) draw(sights []sight, keeps bool) (*charter, error) {
	c := &charter{id: rand.Text(), maxTTL: q.maxTTL, memory: volatile, names: q.names}
	if keeps {
		c.memory = durable
	}
	members := 0
	for _, n := range q.nodes {
		s := sights[n.index]
		if s.word != "member" {
			continue
		}
		found, err := q.readCharter(n, reply{word: s.text})
		if err == nil && members > 0 && found.id != c.id {
			err = fmt.Errorf("it is in the quorum %s, another in %s: delete the key %s of one", found.id, c.id, q.member)
		}
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", n.name, err)
		}
		c = found
		members++
	}
	if members >= q.need {
		return nil, fmt.Errorf("there is a quorum: %d of %d nodes are members", members, len(q.nodes))
	}
	return c, nil
}

// found writes the markers. With a majority of them there is a quorum. Where a new
// one does not come to that it leaves nothing behind: whoever founds another
// must not find it half-way.
func (q *quorum) found(ctx context.Context, c *charter, sights []sight) error {
	var members atomic.Int64
	err := q.each(ctx, func(ctx context.Context, n *node) error {
		r := q.askFound(ctx, n, q.dowry(c, n, sights)...)
		if r.word != "member" || !strings.HasPrefix(r.text(1), c.markers[n.index]) {
			r = r.expect(0, "joined")
		}
		if r.err != nil {
			return fmt.Errorf("node %s: %w", n.name, r.err)
		}
		members.Add(1)
		return nil
	})
	if had := int(members.Load()); had >= q.need {
		q.known.Store(c)
		if err != nil {
			err = fmt.Errorf("founded by %d of %d nodes, the others will recover: %w", had, len(q.nodes), err)
		}
	} else if !slices.ContainsFunc(sights, func(s sight) bool { return s.word == "member" }) {
		q.retract(ctx, c)
	}
	return err
}

// dowry is what found.lua needs to make n a member.
func (q *quorum) dowry(c *charter, n *node, sights []sight) []any {
	args := []any{c.markers[n.index], c.run(), q.quarantine().Milliseconds(), sights[n.index].text}
	for i := range buckets {
		highest := int64(0)
		for _, s := range sights {
			highest = max(highest, s.counters[i])
		}
		args = append(args, highest)
	}
	return args
}

func (q *quorum) retract(ctx context.Context, c *charter) {
	_ = q.each(context.WithoutCancel(ctx), func(ctx context.Context, n *node) error {
		return retractScript.Run(ctx, n.client, []string{q.member}, c.markers[n.index]).Err()
	})
}
