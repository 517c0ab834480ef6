package redistoken

import (
	"cmp"
	"context"
	"crypto/sha1" //nolint:gosec // it is how Redis names scripts
	_ "embed"     // the scripts
	"encoding/hex"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/internal/outage"
	"github.com/fencepost/fencepost/token"
)

const (
	// maxPipeline bounds how many commands one pipeline carries.
	maxPipeline = 64
	// usualSlowReply is how long queued commands wait for a sender. After it, another
	// sender sends them, since the first sender's connection may be broken.
	usualSlowReply = 20 * time.Millisecond
)

var (
	//go:embed acquire_fast.lua
	acquireFastSource string
	//go:embed release_fast.lua
	releaseFastSource string
	//go:embed mint.lua
	mintSource string
	//go:embed queue.lua
	queueSource string
	//go:embed acquire.lua
	acquireSource string
	//go:embed wait.lua
	waitSource string
	//go:embed release.lua
	releaseSource string
	//go:embed renew.lua
	renewSource string
	//go:embed recover.lua
	recoverSource string
	//go:embed numsub.lua
	numsubSource string

	// The fast path comes first, since Lua creates the functions after it on every run.
	acquireScript = newScript(0, 3, acquireFastSource+mintSource+queueSource+acquireSource)
	waitScript    = newScript(0, 3, acquireFastSource+mintSource+queueSource+waitSource)
	releaseScript = newScript(0, 3, releaseFastSource+mintSource+queueSource+releaseSource)
	renewScript   = newScript(0, 1, renewSource)
	recoverScript = newScript(1, 2, recoverSource)
	numsubScript  = newScript(0, 1, numsubSource)
)

// script is a Lua script. Its KEYS are keys.args[from:to].
type script struct {
	from, to   int
	text, hash any // strings
}

func newScript(from, to int, text string) *script {
	hash := sha1.Sum([]byte(text)) //nolint:gosec // as above
	return &script{from: from, to: to, text: text, hash: hex.EncodeToString(hash[:])}
}

// run runs s for the resource of k. If ctx ends before the reply arrives, run returns the
// cause of ctx.
func (i *Issuer) run(ctx context.Context, s *script, k *keys, argv ...any) (any, error) {
	return i.do(ctx, newCommand(ctx, s, k, argv...))
}

// do sends c and returns its reply, or the cause of ctx if ctx ends first.
func (i *Issuer) do(ctx context.Context, c *command) (any, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if !i.execute(ctx, c) {
		return nil, context.Cause(ctx)
	}
	return c.reply(ctx)
}

// finish sends c and returns what read returns for its reply. If ctx ends first, finish
// returns the cause of ctx, and read is called on another goroutine when the reply
// arrives.
func (i *Issuer) finish(ctx context.Context, c *command, read func(reply any, err error) (bool, error)) (bool, error) {
	if err := context.Cause(ctx); err != nil {
		return read(nil, err)
	}
	if !i.execute(ctx, c) {
		go func() {
			<-c.done
			_, _ = read(c.Result())
		}()
		return false, context.Cause(ctx)
	}
	return read(c.reply(ctx))
}

// command is one run of a script.
type command struct {
	*redis.Cmd
	ctx  context.Context
	text any           // of the script
	done chan struct{} // closed when the reply has arrived, or when the command was not sent
}

// newCommand returns a command that runs s by its hash.
func newCommand(ctx context.Context, s *script, k *keys, argv ...any) *command {
	args := slices.Concat([]any{"evalsha", s.hash, s.to - s.from}, k.args[s.from:s.to], argv)
	c := &command{Cmd: redis.NewCmd(ctx, args...), ctx: ctx, text: s.text, done: make(chan struct{})}
	c.SetFirstKeyPos(3)
	return c
}

// needsEval reports whether the server did not have the script, as after a restart. If
// so, it replaces the Cmd with one that contains the script's text, to send next.
func (c *command) needsEval(ctx context.Context) bool {
	if c.Err() == nil || !redis.HasErrorPrefix(c.Err(), "NOSCRIPT") {
		return false
	}
	c.Cmd = redis.NewCmd(ctx, slices.Concat([]any{"eval", c.text}, c.Args()[2:])...)
	c.SetFirstKeyPos(3)
	return true
}

// reply returns the reply. If the command failed because ctx has ended, the error is the
// cause of ctx. If the server could not be reached, it is [token.ErrUnreachable].
func (c *command) reply(ctx context.Context) (any, error) {
	reply, err := c.Result()
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

// execute sends c and reports whether its reply has arrived. It returns false if ctx ends
// first. c.done is closed in both cases when the reply arrives.
func (i *Issuer) execute(ctx context.Context, c *command) bool {
	if _, cluster := i.Client.(clusterClient); cluster { // a pipeline would wait for the slowest of several nodes
		go i.send(c)
	} else {
		i.submit(c)
	}
	return c.arrived(ctx)
}

// arrived waits for c.done. It returns false if ctx ends first.
func (c *command) arrived(ctx context.Context) bool {
	select {
	case <-c.done:
		return true
	case <-ctx.Done():
		return false
	}
}

// pipeline has the commands that are to be sent. Senders, which are goroutines, send
// them. Usually there is one sender. Commands that arrive while it waits for a reply are
// queued, and it then sends them together.
//
// A caller does not send, so that it can return when its context ends. go-redis checks a
// context before it sends and between its retries. While it reads, it applies only the
// deadline, and only with ContextTimeoutEnabled. An abandoned command ends after the
// client's read timeout.
type pipeline struct {
	mu        sync.Mutex
	queue     []*command
	prompt    int           // senders that have waited for less than slowReply
	slowReply time.Duration // set by tests; zero means usualSlowReply
}

// submit queues c.
func (i *Issuer) submit(c *command) {
	i.pipeline.mu.Lock()
	defer i.pipeline.mu.Unlock()
	i.pipeline.queue = append(i.pipeline.queue, c)
	i.startSender()
}

// startSender starts a sender if the queue is not empty and no sender should take it
// soon. The caller holds pipeline.mu.
func (i *Issuer) startSender() {
	if p := &i.pipeline; p.prompt == 0 && len(p.queue) > 0 {
		p.prompt++
		go i.sendQueue()
	}
}

// sendQueue is a sender: it sends until the queue is empty. The first command is sent
// alone, since the connection may be broken.
func (i *Issuer) sendQueue() {
	p := &i.pipeline
	for batch := p.take(1); len(batch) > 0; batch = p.take(maxPipeline) {
		late := time.AfterFunc(cmp.Or(p.slowReply, usualSlowReply), func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.prompt--
			i.startSender()
		})
		if len(batch) == 1 {
			i.send(batch[0])
		} else { // the end of one caller's context must not end the other callers' commands
			i.sendBatch(context.WithoutCancel(batch[0].ctx), batch)
		}
		if !late.Stop() {
			p.mu.Lock()
			p.prompt++
			p.mu.Unlock()
		}
		runtime.Gosched() // lets the callers that have their replies submit their next commands: one pipeline carries them all
	}
}

// take removes commands from the queue, at most limit. If there are none, the sender
// ends.
func (p *pipeline) take(limit int) []*command {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := min(len(p.queue), limit)
	if n == 0 {
		p.prompt--
		return nil
	}
	batch := slices.Clone(p.queue[:n])
	p.queue = slices.Delete(p.queue, 0, n)
	return batch
}

// send sends c outside a pipeline and closes c.done. It does not send c if the caller has
// returned.
func (i *Issuer) send(c *command) {
	defer close(c.done)
	if cause := context.Cause(c.ctx); cause != nil {
		c.SetErr(cause)
		return
	}
	if i.Client.Process(c.ctx, c.Cmd) != nil && c.needsEval(c.ctx) {
		_ = i.Client.Process(c.ctx, c.Cmd) // the Cmd has the error
	}
}

// sendBatch is send for several commands in one pipeline, with ctx.
func (i *Issuer) sendBatch(ctx context.Context, batch []*command) {
	defer func() {
		for _, c := range batch {
			close(c.done)
		}
	}()
	live := make([]*command, 0, len(batch))
	for _, c := range batch {
		if cause := context.Cause(c.ctx); cause != nil {
			c.SetErr(cause)
			continue
		}
		live = append(live, c)
	}
	i.sendPipeline(ctx, live)
	var again []*command
	for _, c := range live {
		// If the caller has returned, it may already have released. Then c must not
		// acquire.
		if c.ctx.Err() == nil && c.needsEval(ctx) {
			again = append(again, c)
		}
	}
	i.sendPipeline(ctx, again)
}

// sendPipeline sends all of commands in one pipeline. Each command has its own error.
func (i *Issuer) sendPipeline(ctx context.Context, commands []*command) {
	if len(commands) == 0 {
		return
	}
	_, err := i.Client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, c := range commands {
			_ = pipe.Process(ctx, c.Cmd)
		}
		return nil
	})
	for _, c := range commands {
		if err != nil && c.Err() == nil && c.Val() == nil {
			c.SetErr(err) // the client did not send it and set no error
		}
	}
}

// sendWithWait sends c and then WAIT on the same connection, and closes c.done. It
// returns how many replicas confirmed. The error is in c.
func (c *command) sendWithWait(
	ctx context.Context, server redis.UniversalClient, replicas int, bound time.Duration,
) (have int64) {
	defer close(c.done)
	send := func() error {
		wait := redis.NewIntCmd(ctx, "wait", replicas, bound.Milliseconds())
		_, err := server.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			_ = pipe.Process(ctx, c.Cmd)
			return pipe.Process(ctx, wait)
		})
		have = wait.Val()
		return err
	}
	err := send()
	if c.needsEval(ctx) {
		err = send()
	}
	if err != nil {
		c.SetErr(err)
	}
	return have
}
