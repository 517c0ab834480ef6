package redisquorum

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// requestTimeout bounds the requests that have no ttl.
	requestTimeout = 10 * time.Second
	// stragglerTimeout is the longest time for which collect waits for the remaining
	// nodes after the replies have decided. Waiting makes the next request reach those
	// nodes in order.
	stragglerTimeout = 10 * time.Millisecond
	// stallTimeout is the least time for which collect waits for the remaining nodes
	// after a majority has replied and the replies have not decided: these nodes may
	// decide, or they may hang. Nodes with an abandoned request get only
	// stragglerTimeout.
	stallTimeout = 500 * time.Millisecond
	// maxAbandoned is how many requests whose callers have returned may be in flight at a
	// node. If there are more, nothing is sent to the node until they end. Without this
	// bound, each call would leave a goroutine and a connection at a server that hangs.
	maxAbandoned = 64
)

// timeouts are these constants, or the values that a test sets in their place.
type timeouts struct{ request, straggler, stall, retry time.Duration }

// collect sends a request to all nodes at once. It passes each reply to count, which
// reports whether the replies decide, or returns the reason for which the reply is of no
// use. The replies also decide if so many nodes have failed that the others are no majority.
// collect returns when the replies decide, when all nodes have replied, when the remaining
// nodes are far slower than the others, or after bound. The caller checks what is decided by
// then. If ctx ends, collect returns its cause.
//
// An abandoned request ends with the client's own timeouts, since go-redis does not check
// a context while it reads.
func (q *quorum) collect(
	ctx context.Context, bound time.Duration,
	request func(context.Context, *node) reply, count func(*node, reply) (decided bool, err error),
) (failed failures, err error) {
	all, start := q.sendAll(ctx, bound, request), time.Now()
	defer all.abandon()
	end := time.NewTimer(bound)
	defer end.Stop()
	decided := false
	for had := 1; had <= len(q.nodes); had++ {
		select {
		case r := <-all.responses:
			decides, err := false, r.err
			if err == nil {
				decides, err = count(r.from, r.reply)
			}
			if err != nil {
				failed = append(failed, fmt.Errorf("node %s: %w", r.from.name, err))
			}
			decided = decided || decides || len(failed) > len(q.nodes)-q.need
			if spent := time.Since(start); decided {
				end.Reset(min(spent, q.straggler, bound-spent))
			} else if had >= q.need {
				end.Reset(min(2*spent+q.extraTime(all), bound-spent))
			}
		case <-end.C:
			return failed, nil
		case <-ctx.Done():
			return failed, context.Cause(ctx)
		}
	}
	return failed, nil
}

// majority sends a request to all nodes until a majority has replied. accept checks the
// reply of one node.
func (q *quorum) majority(ctx context.Context, request func(context.Context, *node) reply, accept func(reply) error) error {
	answered := 0
	failed, err := q.collect(ctx, q.request, request, func(_ *node, r reply) (bool, error) {
		if err := accept(r); err != nil {
			return false, err
		}
		answered++
		return answered >= q.need, nil
	})
	if err == nil && answered < q.need {
		err = failed.noMajority(q, answered)
	}
	return err
}

// broadcast is a request to all nodes.
type broadcast struct {
	responses chan response
	requests  []request
	open      atomic.Int32 // requests in flight
	cancel    context.CancelFunc
}

type request struct {
	to    *node
	state atomic.Int32
}

type response struct {
	from *node
	reply
}

// The states of a request.
const (
	inFlight = iota
	answered
	abandoned
)

// sendAll sends a request to each node. bound limits each request as far as the client
// permits.
func (q *quorum) sendAll(ctx context.Context, bound time.Duration, send func(context.Context, *node) reply) *broadcast {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bound)
	all := &broadcast{
		responses: make(chan response, len(q.nodes)), requests: make([]request, len(q.nodes)), cancel: cancel,
	}
	all.open.Store(int32(len(q.nodes)))
	for i, n := range q.nodes {
		all.requests[i].to = n
		go func() {
			all.responses <- response{n, send(ctx, n)}
			if !all.requests[i].state.CompareAndSwap(inFlight, answered) {
				n.abandoned.Add(-1)
			}
			if all.open.Add(-1) == 0 {
				all.cancel()
			}
		}()
	}
	return all
}

// extraTime returns how long to wait for the nodes that have not replied.
func (q *quorum) extraTime(b *broadcast) time.Duration {
	for i := range b.requests {
		if r := &b.requests[i]; r.state.Load() == inFlight && r.to.abandoned.Load() == 0 {
			return q.stall
		}
	}
	return q.straggler
}

// abandon marks the requests that are in flight when their caller returns.
func (b *broadcast) abandon() {
	for i := range b.requests {
		if b.requests[i].state.CompareAndSwap(inFlight, abandoned) {
			b.requests[i].to.abandoned.Add(1)
		}
	}
}

// call runs at n a script that begins with member.lua. It returns an error if n is not a
// member. If n is unrecovered and its quarantine is over, call starts its recovery.
func (q *quorum) call(
	ctx context.Context, c *config, n *node, script *redis.Script, keys []string, args ...any,
) reply {
	if n.abandoned.Load() >= maxAbandoned {
		return reply{err: errHanging}
	}
	keys = append([]string{q.memberKey, q.unrecoveredKey}, keys...)
	args = append([]any{c.markers[n.index], c.durability()}, args...)
	r := parseReply(script.Run(ctx, n.client, keys, args...).Result())
	switch r.word {
	case "unrecovered":
		r = r.expect(2, "unrecovered")
		if r.err == nil {
			unrecovered := &unrecoveredError{note: r.text(1), left: q.quarantine() - milliseconds(r.integer(0))}
			r.err = unrecovered
			q.rejoinInBackground(ctx, c, n, unrecovered)
		}
	case "mismatch":
		r.err = q.mismatch(n, c, fmt.Sprint(r.parts...))
	}
	return r
}

// each calls do for all nodes at once and waits for all calls. It returns their errors, with
// the names of the nodes. If ctx ends first, each returns its cause, and the calls continue
// in the background.
func (q *quorum) each(ctx context.Context, do func(context.Context, *node) error) error {
	errs := make(chan error, len(q.nodes))
	ctx, cancel := context.WithTimeoutCause(ctx, q.request, errUnresponsive)
	defer cancel()
	for _, n := range q.nodes {
		go func() {
			err := do(ctx, n)
			if err != nil {
				err = fmt.Errorf("node %s: %w", n.name, err)
			}
			errs <- err
		}()
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
