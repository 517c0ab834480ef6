package redistoken

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/internal/lockscript"
	"github.com/fencepost/fencepost/internal/outage"
	"github.com/fencepost/fencepost/token"
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
	//go:embed inspect.lua
	inspectSource string
	//go:embed numsub.lua
	numsubSource string

	// The fast path comes first, since Lua creates the functions after it on every run.
	acquireScript = newScript(0, 3, acquireFastSource+mintSource+queueSource+acquireSource)
	waitScript    = newScript(0, 3, acquireFastSource+mintSource+queueSource+waitSource)
	releaseScript = newScript(0, 3, releaseFastSource+mintSource+queueSource+releaseSource)
	renewScript   = newScript(0, 1, renewSource)
	recoverScript = newScript(1, 2, recoverSource)
	inspectScript = newScript(0, 3, inspectSource)
	numsubScript  = newScript(0, 1, numsubSource)
)

// script is a Lua script. Its KEYS are keys.args[from:to].
type script struct {
	from, to   int
	text, hash any // strings
}

func newScript(from, to int, text string) *script {
	return &script{from: from, to: to, text: text, hash: lockscript.Add(text)}
}

// run runs s for the resource of k and returns its reply, or the cause of ctx if ctx ends
// first.
func (i *Issuer) run(ctx context.Context, s *script, k *keys, argv ...any) (any, error) {
	c := newCommand(ctx, s, k, argv...)
	go i.send(c)
	return c.wait(ctx)
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
// so, the next send of c contains the script's text.
func (c *command) needsEval(ctx context.Context) bool {
	if c.Err() == nil || !redis.HasErrorPrefix(c.Err(), "NOSCRIPT") {
		return false
	}
	c.useEval(ctx)
	return true
}

// useEval replaces the Cmd with one that contains the script's text.
func (c *command) useEval(ctx context.Context) {
	c.Cmd = redis.NewCmd(ctx, slices.Concat([]any{"eval", c.text}, c.Args()[2:])...)
	c.SetFirstKeyPos(3)
}

// reply returns the reply. If the command failed because ctx has ended, the error is the
// cause of ctx. If the server could not be reached, it is [token.ErrUnreachable].
func (c *command) reply(ctx context.Context) (any, error) {
	reply, err := c.Result()
	if err == nil {
		return reply, nil
	}
	switch cause := endCause(ctx); {
	case cause != nil && errors.Is(cause, err): // err says no more, as if c was not sent
		return nil, cause
	case cause != nil:
		return nil, fmt.Errorf("%w (%w)", cause, err)
	case outage.Is(err):
		return nil, fmt.Errorf("%w: %w", token.ErrUnreachable, err)
	}
	return nil, err
}

// endCause returns ctx's cause, or nil. It compares the deadline with the clock, since a
// connection with the same deadline may fail a moment before ctx ends.
func endCause(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		<-ctx.Done()
	}
	return context.Cause(ctx)
}

// wait waits for the reply and returns it. If ctx ends first, wait returns the cause of ctx,
// and c.done is closed when the reply arrives.
func (c *command) wait(ctx context.Context) (any, error) {
	select {
	case <-c.done:
		return c.reply(ctx)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// send sends c and closes c.done when the reply has arrived. It does not send c if the
// caller has returned.
//
// Callers start it on a goroutine, so that they can return when their contexts end. go-redis
// checks a context before it sends and between its retries. While it reads, it applies only
// the deadline, and only with ContextTimeoutEnabled. An abandoned command ends after the
// client's read timeout.
func (i *Issuer) send(c *command) {
	defer close(c.done)
	if cause := context.Cause(c.ctx); cause != nil {
		c.SetErr(cause)
		return
	}
	_ = i.Client.Process(c.ctx, c.Cmd) // the Cmd has the error
	// If the caller has returned, it may already have released: c must not acquire. An
	// AutoPipeliner does not look at the context.
	if c.needsEval(c.ctx) && c.ctx.Err() == nil {
		_ = i.Client.Process(c.ctx, c.Cmd)
	}
}

// sendBatch is send for several commands in one pipeline to server, with ctx.
func sendBatch(ctx context.Context, server redis.UniversalClient, batch []*command) {
	defer func() {
		for _, c := range batch {
			close(c.done)
		}
	}()
	sendPipeline(ctx, server, batch)
	var again []*command
	for _, c := range batch {
		if c.needsEval(ctx) {
			again = append(again, c)
		}
	}
	sendPipeline(ctx, server, again)
}

// sendPipeline sends all of commands in one pipeline, unless ctx has ended. Each command
// has its own error.
func sendPipeline(ctx context.Context, server redis.UniversalClient, commands []*command) {
	if len(commands) == 0 {
		return
	}
	err := context.Cause(ctx)
	if err == nil {
		_, err = server.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for _, c := range commands {
				_ = pipe.Process(ctx, c.Cmd)
			}
			return nil
		})
	}
	for _, c := range commands {
		if err != nil && c.Err() == nil && c.Val() == nil {
			c.SetErr(err) // the client did not send it and set no error
		}
	}
}
