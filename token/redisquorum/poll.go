package redisquorum

import (
	"context"
	"errors"
	"time"
)

const (
	// courtesy is the most that is waited, once all is decided, for those who
	// have not answered: they hear of what comes next in order then.
	courtesy = 10 * time.Millisecond
	// patience is what is waited at least, once a majority has answered and
	// nothing is decided, for those who have not: they may decide, or hang. Those
	// who still owe an answer to a question before get courtesy alone.
	patience = 500 * time.Millisecond
)

// poll asks all nodes at once. count gets their answers one by one and says
// whether they decide. It returns when they do, when all have answered, when
// those who have not are far behind the others, or after bound: what is decided
// by then is for the caller to see. Where ctx ends it returns its cause.
//
// A question that is left behind ends with the client's own timeouts: go-redis
// does not look at a context while it reads.
func (q *quorum) poll(
	ctx context.Context, bound time.Duration, ask func(context.Context, *node) reply, count func(*node, reply) bool,
) error {
	answers, start := q.askAll(ctx, bound, ask), time.Now()
	defer answers.leave()
	end := time.NewTimer(bound)
	defer end.Stop()
	decided := false
	for had := 1; had <= len(q.nodes); had++ {
		select {
		case a := <-answers.come:
			decided = count(a.from, a.reply) || decided
			if spent := time.Since(start); decided {
				end.Reset(min(spent, courtesy, bound-spent))
			} else if had >= q.need {
				end.Reset(min(2*spent+answers.patience(), bound-spent))
			}
		case <-end.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// each does something with all nodes at once, and waits for all of them. Where
// ctx ends it returns its cause, and what is done goes on in the background.
func (q *quorum) each(ctx context.Context, do func(context.Context, *node) error) error {
	errs := make(chan error, len(q.nodes))
	ctx, cancel := context.WithTimeoutCause(ctx, introduction, errSilent)
	defer cancel()
	for _, n := range q.nodes {
		go func() { errs <- do(ctx, n) }()
	}
	var all []error
	for range q.nodes {
		select {
		case err := <-errs:
			all = append(all, err)
		case <-ctx.Done():
			return errors.Join(append(all, context.Cause(ctx))...)
		}
	}
	return errors.Join(all...)
}
