package redisquorum

import (
	"context"
	"fmt"
	"slices"

	"github.com/fencepost/fencepost/token"
)

// Raise implements [token.Raiser]. It decides by what a majority knows, and then
// raises a majority: with the resource all others of its bucket, a 256th of them.
// An acquisition by somebody else whose first round is over by then may still be
// granted less. While the lease lives that a guard refused, there is none.
func (i *Issuer) Raise(ctx context.Context, resource string, number int64) error {
	err := (token.Token{Resource: resource, Number: number, Holder: "-"}).Check()
	if err != nil {
		return err
	}
	q, c, err := i.enter(ctx)
	if err == nil {
		err = q.raise(ctx, c, q.counter(resource), number)
	}
	if err != nil {
		return fmt.Errorf("redisquorum: raise %s to %d: %w", resource, number, err)
	}
	return nil
}

func (q *quorum) raise(ctx context.Context, c *charter, counter string, number int64) error {
	highest, clock, err := q.look(ctx, c, counter)
	switch {
	case err != nil:
		return err
	case highest >= number:
		return token.ErrLost
	case number > clock+token.Poisoned:
		return token.ErrPoisoned
	}
	var failed tally
	raised := 0
	ask := func(ctx context.Context, n *node) reply {
		return q.call(ctx, c, n, raiseScript, []string{counter}, number).expect(0, "raised")
	}
	err = q.poll(ctx, introduction, ask, func(_ *node, r reply) bool {
		if r.err != nil {
			failed.fail(r.err)
		} else {
			raised++
		}
		return raised >= q.need || len(failed.errs) > len(q.nodes)-q.need
	})
	if err == nil && raised < q.need {
		err = failed.noMajority(q, raised)
	}
	return err
}

// look returns what the highest of a counter is, at a majority, and their clock.
func (q *quorum) look(ctx context.Context, c *charter, counter string) (highest, clock int64, err error) {
	var failed tally
	var clocks []int64
	ask := func(ctx context.Context, n *node) reply {
		return q.call(ctx, c, n, countersScript, []string{counter}).expect(2, "counters")
	}
	err = q.poll(ctx, introduction, ask, func(_ *node, r reply) bool {
		var numbers []int64
		if r.err == nil {
			numbers, r.err = r.numbers(0)
		}
		if r.err != nil {
			failed.fail(r.err)
			return len(failed.errs) > len(q.nodes)-q.need
		}
		clocks, highest = append(clocks, numbers[0]), max(highest, numbers[1])
		return len(clocks) >= q.need
	})
	if err == nil && len(clocks) < q.need {
		err = failed.noMajority(q, len(clocks))
	}
	if err != nil {
		return 0, 0, err
	}
	slices.Sort(clocks)
	return highest, clocks[(len(clocks)-1)/2], nil
}
