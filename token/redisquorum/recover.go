package redisquorum

import (
	"context"
	"errors"
	"fmt"
)

// Recover makes members of the nodes that have lost their memory, those that
// have been blank for long enough. Programs need not call it: every other method
// does the same in the background for the blank nodes that it meets. It is for
// a quorum that nobody uses for long, since a loss is noted when it is met, not
// when it happens; and for tests. The error is nil when all nodes are members
// now, and else says of each that is not what is the matter with it.
func (i *Issuer) Recover(ctx context.Context) error {
	q, c, err := i.enter(ctx)
	if err != nil {
		return fmt.Errorf("redisquorum: recover: %w", err)
	}
	err = q.each(ctx, func(ctx context.Context, n *node) error { return q.recover(ctx, c, n) })
	if err != nil {
		return fmt.Errorf("redisquorum: recover: %w", err)
	}
	return nil
}

// nurse recovers n in the background, when its time has come.
func (q *quorum) nurse(ctx context.Context, c *charter, n *node, blank *blankError) {
	if blank.left > 0 || !n.recovering.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer n.recovering.Store(false)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), introduction)
		defer cancel()
		_ = q.join(ctx, c, n, blank.note) // the next one who meets it tries again
	}()
}

func (q *quorum) recover(ctx context.Context, c *charter, n *node) error {
	r := q.call(ctx, c, n, countersScript, nil)
	var blank *blankError
	if errors.As(r.err, &blank) && blank.left <= 0 {
		return q.join(ctx, c, n, blank.note)
	}
	return r.err
}

// join lets n vote again. It has been blank for as long as any lease can last
// that it had a part in; all that was minted before, a majority has written down
// since: and of as many of the others as are a majority of all, one has it in its
// memory. To read them before that time is over would miss what an acquisition
// under way counts n for.
func (q *quorum) join(ctx context.Context, c *charter, n *node, note string) error {
	highest, err := q.highest(ctx, c, n)
	if err != nil {
		return fmt.Errorf("node %s: %w", n.name, err)
	}
	args := []any{q.quarantine().Milliseconds(), note}
	for _, number := range highest {
		args = append(args, number)
	}
	return q.call(ctx, c, n, joinScript, q.counters(), args...).expect(0, "joined").err
}

// highest returns the greatest of each counter at so many nodes besides n as are
// a majority with it or without.
func (q *quorum) highest(ctx context.Context, c *charter, n *node) ([]int64, error) {
	var failed tally
	highest, read := make([]int64, buckets), 0
	ask := func(ctx context.Context, other *node) reply {
		if other == n {
			return reply{err: errors.New("it does not know")}
		}
		return q.call(ctx, c, other, countersScript, q.counters()).expect(buckets+1, "counters")
	}
	err := q.poll(ctx, introduction, ask, func(_ *node, r reply) bool {
		var numbers []int64
		if r.err == nil {
			numbers, r.err = r.numbers(1)
		}
		if r.err != nil {
			failed.fail(r.err)
			return len(failed.errs) > len(q.nodes)-q.need
		}
		read++
		for i, number := range numbers {
			highest[i] = max(highest[i], number)
		}
		return read >= q.need
	})
	if err == nil && read < q.need {
		err = failed.noMajority(q, read)
	}
	return highest, err
}
