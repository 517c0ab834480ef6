package redisquorum

import (
	"context"
	"fmt"
	"time"
)

// sight is what Bootstrap sees of a node.
type sight struct {
	word     string        // member, fresh or blank
	age      time.Duration // how long a blank one has been it
	text     string        // a member's marker, or a blank one's note
	run      string        // its server's
	counters []int64
}

func traces(sights []sight) bool {
	for _, s := range sights {
		if s.word != "fresh" {
			return true
		}
	}
	return false
}

// survey looks at all nodes. With life there has been a quorum, and none of them
// is new: one that looks so has lost its memory, and that is noted now.
func (q *quorum) survey(ctx context.Context, life string) ([]sight, error) {
	sights := make([]sight, len(q.nodes))
	err := q.each(ctx, func(ctx context.Context, n *node) (err error) {
		r := q.askFound(ctx, n, "", "", "", life).expect(3+buckets, "member", "blank", "fresh")
		s := sight{word: r.word}
		if err = r.err; err == nil {
			s.age, s.text, s.run = milliseconds(r.integer(0)), r.text(1), r.text(2)
			s.counters, err = r.numbers(3)
		}
		if err != nil {
			return fmt.Errorf("node %s: %w", n.name, err)
		}
		sights[n.index] = s
		return nil
	})
	if err != nil {
		return nil, err // and what is under way may still be written to sights
	}
	for n, s := range sights {
		for other := range n {
			if sights[other].run == s.run {
				return nil, fmt.Errorf("nodes %s and %s are one server", q.nodes[other].name, q.nodes[n].name)
			}
		}
	}
	return sights, nil
}

func (q *quorum) askFound(ctx context.Context, n *node, args ...any) reply {
	keys := append([]string{q.member, q.blank}, q.counters()...)
	return read(foundScript.Run(ctx, n.client, keys, args...).Result())
}

// rested refuses while a lease may be alive that a blank node had a part in.
func (q *quorum) rested(sights []sight) error {
	var left time.Duration
	for _, s := range sights {
		if s.word == "blank" {
			left = max(left, q.quarantine()-s.age)
		}
	}
	if left > 0 {
		return fmt.Errorf("nodes have lost their memory: leases may be alive for another %s", left)
	}
	return nil
}
