package redistoken

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// pump sends calls from goroutines of its own, so that who waits for an answer
// can leave when its context ends. go-redis looks at a context before it sends
// and between its tries, but not while it reads; there it knows the deadline
// alone, and that only with ContextTimeoutEnabled. A call that is left behind
// ends with the client's read timeout.
//
// Calls that come while others are on their way go together, in one pipeline.
type pump struct {
	under   atomic.Int64 // how many wait for answers
	mu      sync.Mutex
	queue   []*call
	working []*worker
	resting []*worker // the last to rest is the first to work
	watched bool      // dismiss is going to be called
	closed  bool      // nobody rests any more
	signals sync.Pool // of channels; a pool of all Issuers would carry them from one bubble of synctest to another
	helping bool      // help is going to be called
}

type worker struct {
	calls chan *call
	sent  time.Time // when it last sent something
}

const (
	// mostTogether bounds a pipeline.
	mostTogether = 64
	// lateAnswer is when others do not wait for an answer any more: the
	// connection may be broken.
	lateAnswer = 20 * time.Millisecond
	// linger is how long a worker waits for the next call, at least.
	linger = 100 * time.Millisecond
)

// submit has c sent.
func (i *Issuer) submit(c *call) {
	_, apart := i.Client.(sharded) // in a pipeline each would wait for the slowest node
	p := &i.pump
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if !apart && p.soon(now) {
		p.queue = append(p.queue, c)
		if !p.helping {
			p.helping = true
			time.AfterFunc(lateAnswer, i.help)
		}
		return
	}
	i.assign(c, now)
}

// help sends what is in the queue of workers that do not come back: the
// connection of each may be broken.
func (i *Issuer) help() {
	p := &i.pump
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.helping = len(p.queue) > 0; !p.helping {
		return
	}
	time.AfterFunc(lateAnswer, i.help)
	if now := time.Now(); !p.soon(now) {
		c := p.queue[0]
		left := copy(p.queue, p.queue[1:])
		clear(p.queue[left:])
		p.queue = p.queue[:left]
		i.assign(c, now) // and whoever has sent it takes the rest
	}
}

// assign gives c to a worker. The mutex is held.
func (i *Issuer) assign(c *call, now time.Time) {
	p := &i.pump
	if n := len(p.resting); n > 0 {
		w := p.resting[n-1]
		p.resting = p.resting[:n-1]
		w.sent = now
		p.working = append(p.working, w)
		w.calls <- c // it is waiting
		return
	}
	w := &worker{calls: make(chan *call, 1), sent: now}
	p.working = append(p.working, w)
	go i.work(w, c)
}

// soon says that a worker is about to come back. The mutex is held.
func (p *pump) soon(now time.Time) bool {
	for _, w := range p.working {
		if now.Sub(w.sent) < lateAnswer {
			return true
		}
	}
	return false
}

// work sends first, what has come in the meantime, and what comes.
func (i *Issuer) work(w *worker, first *call) {
	batch := append(make([]*call, 0, 16), first)
	for len(batch) > 0 {
		i.flush(batch)
		if batch = i.pump.next(w, batch); len(batch) > 0 {
			continue
		}
		if c, ok := <-w.calls; ok {
			batch = append(batch, c)
		}
	}
}

// next takes what there is to send; where there is nothing, w rests.
func (p *pump) next(w *worker, batch []*call) []*call {
	clear(batch)
	p.mu.Lock()
	defer p.mu.Unlock()
	n := min(len(p.queue), mostTogether)
	batch = append(batch[:0], p.queue[:n]...)
	left := copy(p.queue, p.queue[n:])
	clear(p.queue[left:])
	p.queue = p.queue[:left]
	if w.sent = time.Now(); n > 0 {
		return batch
	}
	p.working = without(p.working, w)
	if p.closed {
		close(w.calls)
		return batch
	}
	p.resting = append(p.resting, w)
	if !p.watched {
		p.watched = true
		time.AfterFunc(linger, p.dismiss)
	}
	return batch
}

// dismiss ends who has rested for long, and comes back for the others.
func (p *pump) dismiss() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.resting) > 0 && time.Since(p.resting[0].sent) >= linger {
		close(p.resting[0].calls)
		p.resting = without(p.resting, p.resting[0])
	}
	if p.watched = len(p.resting) > 0; p.watched {
		time.AfterFunc(linger, p.dismiss)
	}
}

func (p *pump) signal() chan struct{} {
	if c, ok := p.signals.Get().(chan struct{}); ok {
		return c
	}
	return make(chan struct{}, 1)
}

// close ends who rests, and who would.
func (p *pump) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, w := range p.resting {
		close(w.calls)
	}
	p.resting = nil
}

func without(workers []*worker, w *worker) []*worker {
	for n, other := range workers {
		if other == w {
			last := len(workers) - 1
			copy(workers[n:], workers[n+1:])
			workers[last] = nil
			return workers[:last]
		}
	}
	return workers
}

// flush sends batch, and tells those who wait.
func (i *Issuer) flush(batch []*call) {
	if c := batch[0]; len(batch) == 1 {
		if c.err = context.Cause(c.ctx); c.err == nil {
			i.do(c)
		}
		c.done <- struct{}{}
		return
	}
	// The end of one's context must not end what others have asked for.
	ctx := context.WithoutCancel(batch[0].ctx)
	live := make([]redis.Cmder, 0, len(batch))
	for _, c := range batch {
		if c.err = context.Cause(c.ctx); c.err == nil {
			live = append(live, &c.cmd)
		}
	}
	i.pipeline(ctx, live)
	for _, c := range batch {
		// One whose caller has gone by now, and perhaps has given back already, must not acquire any more.
		if c.err == nil && c.ctx.Err() == nil && c.forgotten(ctx) {
			_ = i.Client.Process(ctx, c.again) // its error is its own
		}
		c.done <- struct{}{}
	}
}

// pipeline sends all of cmds at once; each has its own error then.
func (i *Issuer) pipeline(ctx context.Context, cmds []redis.Cmder) {
	if len(cmds) == 0 {
		return
	}
	_, err := i.Client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, cmd := range cmds {
			_ = pipe.Process(ctx, cmd)
		}
		return nil
	})
	for _, cmd := range cmds {
		if err != nil && cmd.Err() == nil && cmd.(*redis.Cmd).Val() == nil {
			cmd.SetErr(err) // it was never sent, and does not say so
		}
	}
}
