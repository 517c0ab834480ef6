package redisquorum

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// mostBehind is how many requests that nobody waits for any more a node may have
// open. It is asked nothing until they end: a server that hangs must not gather
// a goroutine and a connection from each call.
const mostBehind = 64

var errBehind = errors.New("it hangs: too many requests are open")

type answer struct {
	from *node
	reply
}

// answers come from all nodes, some of them when nobody waits any more.
type answers struct {
	come   chan answer
	asked  []question
	open   atomic.Int32 // how many of them
	cancel context.CancelFunc
}

type question struct {
	of    *node
	state atomic.Int32
}

const (
	open = iota
	answered
	left
)

// askAll asks every node, and bounds that, as far as the client lets it.
func (q *quorum) askAll(ctx context.Context, bound time.Duration, ask func(context.Context, *node) reply) *answers {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bound)
	all := &answers{come: make(chan answer, len(q.nodes)), asked: make([]question, len(q.nodes)), cancel: cancel}
	all.open.Store(int32(len(q.nodes)))
	for i, n := range q.nodes {
		all.asked[i].of = n
		go func() {
			all.come <- answer{n, ask(ctx, n)}
			if !all.asked[i].state.CompareAndSwap(open, answered) {
				n.behind.Add(-1)
			}
			if all.open.Add(-1) == 0 {
				all.cancel()
			}
		}()
	}
	return all
}

// patience is what is waited for those who have not answered.
func (a *answers) patience() time.Duration {
	for i := range a.asked {
		if q := &a.asked[i]; q.state.Load() == open && q.of.behind.Load() == 0 {
			return patience
		}
	}
	return courtesy
}

// leave is called by who waits no longer.
func (a *answers) leave() {
	for i := range a.asked {
		if a.asked[i].state.CompareAndSwap(open, left) {
			a.asked[i].of.behind.Add(1)
		}
	}
}
