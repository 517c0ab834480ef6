package redisquorum

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/fencepost/fencepost/token"
)

// Recover implements [token.Recoverer]. It decides by the counters of a majority, and
// then raises them at a majority. It raises the numbers of the resource's whole bucket:
// of one resource in 256. An acquisition of another caller that has already finished its
// first round may still be granted a lower number. While the lease that a guard has
// refused is alive, there is no such acquisition.
func (i *Issuer) Recover(ctx context.Context, resource string, number int64) error {
	err := (token.Token{Resource: resource, Number: number, Holder: "-"}).Validate()
	if err != nil {
		return err
	}
	q, c, err := i.begin(ctx)
	if err == nil {
		err = q.recover(ctx, c, q.counter(resource), number)
	}
	if err != nil {
		return fmt.Errorf("redisquorum: recover %s to %d: %w", resource, number, err)
	}
	return nil
}

func (q *quorum) recover(ctx context.Context, c *config, counter string, number int64) error {
	highest, clock, err := q.readCounter(ctx, c, counter)
	switch {
	case err != nil:
		return err
	case highest >= number:
		return token.ErrLost
	case number > clock+token.MaxAhead:
		return token.ErrTooFarAhead
	}
	request := func(ctx context.Context, n *node) reply {
		return q.call(ctx, c, n, recoverScript, []string{counter}, number).expect(0, "raised")
	}
	return q.majority(ctx, request, func(reply) error { return nil })
}

// readCounter returns the highest value of a counter at a majority, and the median of the
// nodes' clocks.
func (q *quorum) readCounter(ctx context.Context, c *config, counter string) (highest, clock int64, err error) {
	var clocks []int64
	request := func(ctx context.Context, n *node) reply {
		return q.call(ctx, c, n, countersScript, []string{counter}).expect(2, "counters")
	}
	err = q.majority(ctx, request, func(r reply) error {
		numbers, err := r.numbers(0, "", counter)
		if err == nil {
			clocks, highest = append(clocks, numbers[0]), max(highest, numbers[1])
		}
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	slices.Sort(clocks)
	return highest, clocks[(len(clocks)-1)/2], nil
}

// Rejoin makes unrecovered nodes members again if they have been unrecovered for long
// enough. Programs need not call it, since every other method does the same in the
// background. Call it for a quorum that is seldom used, and in tests: a loss of memory is
// recorded at the next request, not when it happens. Rejoin returns nil if all nodes are
// then members. If not, it returns the reason for each node that is not.
func (i *Issuer) Rejoin(ctx context.Context) error {
	q, c, err := i.begin(ctx)
	if err != nil {
		return fmt.Errorf("redisquorum: rejoin: %w", err)
	}
	err = q.each(ctx, func(ctx context.Context, n *node) error { return q.rejoinIfDue(ctx, c, n) })
	if err != nil {
		return fmt.Errorf("redisquorum: rejoin: %w", err)
	}
	return nil
}

func (q *quorum) rejoinIfDue(ctx context.Context, c *config, n *node) error {
	r := q.call(ctx, c, n, countersScript, nil)
	var unrecovered *unrecoveredError
	if errors.As(r.err, &unrecovered) && unrecovered.left <= 0 {
		return q.rejoin(ctx, c, n, unrecovered.note)
	}
	return r.err
}

// rejoinInBackground does the same in the background.
func (q *quorum) rejoinInBackground(ctx context.Context, c *config, n *node, unrecovered *unrecoveredError) {
	if unrecovered.left > 0 || !n.rejoining.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer n.rejoining.Store(false)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), q.request)
		defer cancel()
		_ = q.rejoin(ctx, c, n, unrecovered.note) // if it fails, the next request to the node tries again
	}()
}

// rejoin makes n vote again. n has been unrecovered for as long as any lease for which it
// voted can last, and a majority has stored every number minted before. So if as many
// other nodes as form a majority are read, one of them has the highest number. A read
// before that time could miss the number of an acquisition in flight that counts n's
// vote.
func (q *quorum) rejoin(ctx context.Context, c *config, n *node, note string) error {
	highest, err := q.highestCounters(ctx, c, n)
	if err != nil {
		return err
	}
	args := []any{q.quarantine().Milliseconds(), note}
	for _, number := range highest {
		args = append(args, number)
	}
	return q.call(ctx, c, n, rejoinScript, q.counters(), args...).expect(0, "joined").err
}

// highestCounters returns the highest value of each counter at as many nodes as form a
// majority, without n.
func (q *quorum) highestCounters(ctx context.Context, c *config, n *node) ([]int64, error) {
	highest := make([]int64, buckets)
	request := func(ctx context.Context, other *node) reply {
		if other == n {
			return reply{err: errors.New("it is the node that recovers")}
		}
		return q.call(ctx, c, other, countersScript, q.counters()).expect(buckets+1, "counters")
	}
	err := q.majority(ctx, request, func(r reply) error {
		numbers, err := r.numbers(1, q.counters()...)
		for i, number := range numbers {
			highest[i] = max(highest[i], number)
		}
		return err
	})
	return highest, err
}
