package redisquorum

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// introduction bounds the questions that have no ttl.
const introduction = 10 * time.Second

var errFounded = errors.New("it is no member of a quorum: was Bootstrap called, or has it lost its memory?")

// charter returns what a majority of the nodes has agreed on, and remembers it.
func (q *quorum) charter(ctx context.Context) (*charter, error) {
	if c := q.known.Load(); c != nil {
		return c, nil
	}
	votes, charters, failed := map[string]int{}, map[string]*charter{}, tally{}
	answered := 0
	err := q.poll(ctx, introduction, q.askCharter, func(n *node, r reply) bool {
		c, err := q.readCharter(n, r)
		if err != nil {
			failed.fail(fmt.Errorf("node %s: %w", n.name, err))
			return len(failed.errs) > len(q.nodes)-q.need
		}
		answered++
		text := c.marker("")
		votes[text]++
		charters[text] = c
		return votes[text] >= q.need
	})
	for text, n := range votes {
		if err == nil && n >= q.need {
			c := charters[text].settled()
			q.known.Store(c)
			return c, nil
		}
	}
	if err == nil {
		err = failed.noMajority(q, answered)
	}
	return nil, err
}

func (q *quorum) askCharter(ctx context.Context, n *node) reply {
	marker, err := n.client.Get(ctx, q.member).Result()
	if errors.Is(err, redis.Nil) {
		err = errFounded
	}
	return reply{word: marker, err: err}
}

func (q *quorum) readCharter(n *node, r reply) (*charter, error) {
	if r.err != nil {
		return nil, r.err
	}
	c, name, err := parseMarker(r.word)
	if err != nil {
		return nil, err
	}
	return &c, c.differs(name, n.name, q.names, q.maxTTL)
}
