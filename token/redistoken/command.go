package redistoken

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/internal/outage"
	"github.com/fencepost/fencepost/token"
)

const (
	// maxPipeline bounds how many commands one pipeline carries.
	maxPipeline = 64
	// slowReply is how long queued commands wait for a busy worker. After it, another
	// worker sends them, since the busy worker's connection may be broken.
	slowReply = 20 * time.Millisecond
	// workerIdleTimeout is the least time for which an idle worker waits for a command.
	workerIdleTimeout = 100 * time.Millisecond
)

// run runs s for the resource of k. If ctx ends before the reply arrives, run returns the
// cause of ctx.
func (i *Issuer) run(ctx context.Context, s *script, k *keys, argv ...any) (any, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	c := newCommand(ctx, s, k, argv...)
	if !i.execute(ctx, c) {
		return nil, context.Cause(ctx)
	}
	return c.reply(ctx)
}

// command is one run of a script. It contains its redis.Cmd and arguments, so that it
// takes one allocation.
type command struct {
	ctx    context.Context
	script *script
	cmd    redis.Cmd
	args   [3 + 3 + 8]any // EVALSHA with hash and key count, KEYS, ARGV
	eval   *redis.Cmd     // sent if the server did not have the script; nil if not needed
	err    error          // set if the command was not sent
	done   chan struct{}  // receives when the reply has arrived; nil if the caller sends it itself
}

// newCommand returns a command that runs s by its hash.
func newCommand(ctx context.Context, s *script, k *keys, argv ...any) *command {
	c := &command{ctx: ctx, script: s}
	n := copy(c.args[:], []any{byHash, s.hash, s.count})
	n += copy(c.args[n:], k.args[s.from:s.to])
	n += copy(c.args[n:], argv)
	c.cmd = *redis.NewCmd(ctx, c.args[:n]...)
	c.cmd.SetFirstKeyPos(3)
	return c
}

// needsEval reports whether the server did not have the script, as after a restart. If
// so, it sets c.eval to the command to send next.
func (c *command) needsEval(ctx context.Context) bool {
	if c.eval != nil || c.cmd.Err() == nil || !redis.HasErrorPrefix(c.cmd.Err(), "NOSCRIPT") {
		return false
	}
	args := append([]any{byText, c.script.text}, c.cmd.Args()[2:]...)
	c.eval = redis.NewCmd(ctx, args...)
	c.eval.SetFirstKeyPos(3)
	return true
}

// result returns the reply as the client returned it.
func (c *command) result() (any, error) {
	switch {
	case c.err != nil:
		return nil, c.err
	case c.eval != nil:
		return c.eval.Result()
	}
	return c.cmd.Result()
}

// reply returns the reply. If the command failed because ctx has ended, the error is the
// cause of ctx. If the server could not be reached, it is [token.ErrUnreachable].
func (c *command) reply(ctx context.Context) (any, error) {
	reply, err := c.result()
	if err != nil {
		if cause := endCause(ctx); cause != nil {
			return nil, fmt.Errorf("%w (%w)", cause, err)
		}
		if outage.Is(err) {
			err = fmt.Errorf("%w: %w", token.ErrUnreachable, err)
		}
	}
	return reply, err
}

// endCause returns ctx's cause, or nil. It compares the deadline with the clock, since a
// connection with the same deadline may fail a moment before ctx ends.
func endCause(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		<-ctx.Done()
	}
	return context.Cause(ctx)
}

// withContext returns the result of call, or ctx's cause if ctx ends first.
//
// go-redis checks a context before it sends and between its retries. While it reads, it
// applies only the deadline, and only with ContextTimeoutEnabled. An abandoned call ends
// after the client's read timeout.
func withContext(ctx context.Context, call func() (any, error)) (any, error) {
	type result struct {
		value any
		err   error
	}
	results := make(chan result, 1)
	go func() {
		value, err := call()
		results <- result{value, err}
	}()
	select {
	case r := <-results:
		if cause := endCause(ctx); r.err != nil && cause != nil {
			return nil, fmt.Errorf("%w (%w)", cause, r.err)
		}
		return r.value, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// execute sends c and reports whether its reply has arrived. It returns false if ctx ends
// first. c.done receives in both cases when the reply arrives.
func (i *Issuer) execute(ctx context.Context, c *command) bool {
	alone := i.pipeline.inFlight.Add(1) == 1
	defer i.pipeline.inFlight.Add(-1)
	if alone && ctx.Done() == nil { // ctx cannot end, and there is no pipeline to join
		i.send(c)
		return true
	}
	c.done = i.pipeline.newSignal()
	i.submit(c)
	select {
	case <-c.done:
		i.pipeline.signals.Put(c.done)
		return true
	case <-ctx.Done():
		return false
	}
}

// send sends c outside a pipeline.
func (i *Issuer) send(c *command) {
	if i.Client.Process(c.ctx, &c.cmd) != nil && c.needsEval(c.ctx) {
		_ = i.Client.Process(c.ctx, c.eval) // c.eval has the error
	}
}

// pipeline sends commands from worker goroutines, so that a caller can return when its
// context ends: see withContext. Commands that arrive while a worker is busy are queued.
// The worker then sends them together in one pipeline.
type pipeline struct {
	inFlight atomic.Int64 // callers that wait for a reply
	mu       sync.Mutex
	queue    []*command
	busy     []*worker
	idle     []*worker // a stack: the worker that went idle last gets the next command
	reaping  bool      // closeIdle is scheduled
	closed   bool      // workers end instead of going idle
	signals  sync.Pool // of channels; a pool shared by all Issuers would move channels between synctest bubbles
	watching bool      // sendStalled is scheduled
}

type worker struct {
	commands chan *command
	lastSent time.Time
}

// submit assigns c to a worker, or queues it.
func (i *Issuer) submit(c *command) {
	_, cluster := i.Client.(clusterClient) // in a cluster, a pipeline would wait for the slowest of several nodes
	p := &i.pipeline
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if !cluster && p.workerExpected(now) {
		p.queue = append(p.queue, c)
		if !p.watching {
			p.watching = true
			time.AfterFunc(slowReply, i.sendStalled)
		}
		return
	}
	i.assign(c, now)
}

// sendStalled assigns the first queued command to another worker if no busy worker is
// expected to return soon. That worker takes the rest of the queue when it has sent the
// command.
func (i *Issuer) sendStalled() {
	p := &i.pipeline
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.watching = len(p.queue) > 0; !p.watching {
		return
	}
	time.AfterFunc(slowReply, i.sendStalled)
	if now := time.Now(); !p.workerExpected(now) {
		c := p.queue[0]
		left := copy(p.queue, p.queue[1:])
		clear(p.queue[left:])
		p.queue = p.queue[:left]
		i.assign(c, now)
	}
}

// assign assigns c to an idle worker or to a new one. The caller holds p.mu.
func (i *Issuer) assign(c *command, now time.Time) {
	p := &i.pipeline
	if n := len(p.idle); n > 0 {
		w := p.idle[n-1]
		p.idle = p.idle[:n-1]
		w.lastSent = now
		p.busy = append(p.busy, w)
		w.commands <- c // never blocks: the worker is receiving
		return
	}
	w := &worker{commands: make(chan *command, 1), lastSent: now}
	p.busy = append(p.busy, w)
	go i.work(w, c)
}

// workerExpected reports whether a busy worker should return soon. The caller holds p.mu.
func (p *pipeline) workerExpected(now time.Time) bool {
	for _, w := range p.busy {
		if now.Sub(w.lastSent) < slowReply {
			return true
		}
	}
	return false
}

// work sends first, then the commands in the queue, then those it is assigned.
func (i *Issuer) work(w *worker, first *command) {
	batch := append(make([]*command, 0, 16), first)
	for len(batch) > 0 {
		i.sendBatch(batch)
		if batch = i.pipeline.next(w, batch); len(batch) > 0 {
			continue
		}
		if c, ok := <-w.commands; ok {
			batch = append(batch, c)
		}
	}
}

// next takes commands from the queue. If the queue is empty, w becomes idle.
func (p *pipeline) next(w *worker, batch []*command) []*command {
	clear(batch)
	p.mu.Lock()
	defer p.mu.Unlock()
	n := min(len(p.queue), maxPipeline)
	batch = append(batch[:0], p.queue[:n]...)
	left := copy(p.queue, p.queue[n:])
	clear(p.queue[left:])
	p.queue = p.queue[:left]
	if w.lastSent = time.Now(); n > 0 {
		return batch
	}
	p.busy = without(p.busy, w)
	if p.closed {
		close(w.commands)
		return batch
	}
	p.idle = append(p.idle, w)
	if !p.reaping {
		p.reaping = true
		time.AfterFunc(workerIdleTimeout, p.closeIdle)
	}
	return batch
}

// closeIdle ends the workers that have been idle for workerIdleTimeout. It schedules
// itself again if other workers are idle.
func (p *pipeline) closeIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.idle) > 0 && time.Since(p.idle[0].lastSent) >= workerIdleTimeout {
		close(p.idle[0].commands)
		p.idle = without(p.idle, p.idle[0])
	}
	if p.reaping = len(p.idle) > 0; p.reaping {
		time.AfterFunc(workerIdleTimeout, p.closeIdle)
	}
}

func (p *pipeline) newSignal() chan struct{} {
	if c, ok := p.signals.Get().(chan struct{}); ok {
		return c
	}
	return make(chan struct{}, 1)
}

// close ends the idle workers, and lets the busy ones end when they have finished.
func (p *pipeline) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, w := range p.idle {
		close(w.commands)
	}
	p.idle = nil
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

// sendBatch sends the commands of batch and signals their callers.
func (i *Issuer) sendBatch(batch []*command) {
	if c := batch[0]; len(batch) == 1 {
		if c.err = context.Cause(c.ctx); c.err == nil {
			i.send(c)
		}
		c.done <- struct{}{}
		return
	}
	// The end of one caller's context must not end the other callers' commands.
	ctx := context.WithoutCancel(batch[0].ctx)
	live := make([]redis.Cmder, 0, len(batch))
	for _, c := range batch {
		if c.err = context.Cause(c.ctx); c.err == nil {
			live = append(live, &c.cmd)
		}
	}
	i.sendPipeline(ctx, live)
	for _, c := range batch {
		// If the caller has returned, it may already have released. Then c must not
		// acquire.
		if c.err == nil && c.ctx.Err() == nil && c.needsEval(ctx) {
			_ = i.Client.Process(ctx, c.eval) // c.eval has the error
		}
		c.done <- struct{}{}
	}
}

// sendPipeline sends all of cmds in one pipeline. Each command has its own error.
func (i *Issuer) sendPipeline(ctx context.Context, cmds []redis.Cmder) {
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
			cmd.SetErr(err) // the client did not send it and set no error
		}
	}
}

// lost returns the error for a token whose holder does not have the lock.
func lost(tok token.Token) error {
	return fmt.Errorf("redistoken: %s: %w", tok, token.ErrLost)
}

// sendWithWait sends cmd and then WAIT on the same connection. It returns how many
// replicas confirmed.
func sendWithWait(
	ctx context.Context, server redis.UniversalClient, cmd redis.Cmder, replicas int, bound time.Duration,
) (have int64, err error) {
	wait := redis.NewIntCmd(ctx, "wait", replicas, bound.Milliseconds())
	_, err = server.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		_ = pipe.Process(ctx, cmd)
		return pipe.Process(ctx, wait)
	})
	return wait.Val(), err
}
