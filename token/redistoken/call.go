package redistoken

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// call is one script on its way. It holds what it is made of, so that it is one
// piece of memory: a lock is taken and given back often.
type call struct {
	ctx    context.Context
	script *script
	cmd    redis.Cmd
	args   [3 + 3 + 8]any // the script, its keys, and what it is given
	again  *redis.Cmd     // by the script's text, where the server did not know its hash
	err    error          // why there is no answer
	done   chan struct{}  // nil where nobody waits
}

// newCall is a call of s by its hash.
func newCall(ctx context.Context, s *script, k *keys, argv ...any) *call {
	c := &call{ctx: ctx, script: s}
	n := copy(c.args[:], []any{byHash, s.hash, s.count})
	n += copy(c.args[n:], k.args[s.from:s.to])
	n += copy(c.args[n:], argv)
	c.cmd = *redis.NewCmd(ctx, c.args[:n]...)
	c.cmd.SetFirstKeyPos(3)
	return c
}

// forgotten says that the server did not know the script, as after a restart:
// then again is the command to send.
func (c *call) forgotten(ctx context.Context) bool {
	if c.again != nil || c.cmd.Err() == nil || !redis.HasErrorPrefix(c.cmd.Err(), "NOSCRIPT") {
		return false
	}
	args := append([]any{byText, c.script.text}, c.cmd.Args()[2:]...)
	c.again = redis.NewCmd(ctx, args...)
	c.again.SetFirstKeyPos(3)
	return true
}

// result is the answer.
func (c *call) result() (any, error) {
	switch {
	case c.err != nil:
		return nil, c.err
	case c.again != nil:
		return c.again.Result()
	}
	return c.cmd.Result()
}

// do sends c alone.
func (i *Issuer) do(c *call) {
	if i.Client.Process(c.ctx, &c.cmd) != nil && c.forgotten(c.ctx) {
		_ = i.Client.Process(c.ctx, c.again) // its error is its own
	}
}

// run runs s for the resource of k. It returns when ctx ends, if the answer is
// not there by then.
func (i *Issuer) run(ctx context.Context, s *script, k *keys, argv ...any) (any, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	c := newCall(ctx, s, k, argv...)
	if !i.answered(ctx, c) {
		return nil, context.Cause(ctx)
	}
	return c.reply(ctx)
}

// answered sends c, and answers whether its answer is there. It is not where ctx
// ends first: then c.done says when it is.
func (i *Issuer) answered(ctx context.Context, c *call) bool {
	alone := i.pump.under.Add(1) == 1
	defer i.pump.under.Add(-1)
	if alone && ctx.Done() == nil { // there is nothing to look out for, and nobody to go with
		i.do(c)
		return true
	}
	c.done = i.pump.signal()
	i.submit(c)
	select {
	case <-c.done:
		i.pump.signals.Put(c.done)
		return true
	case <-ctx.Done():
		return false
	}
}

// reply is the answer, or says that ctx has ended.
func (c *call) reply(ctx context.Context) (any, error) {
	reply, err := c.result()
	if err != nil {
		if cause := ended(ctx); cause != nil {
			return nil, fmt.Errorf("%w (%w)", cause, err)
		}
	}
	return reply, err
}

// ended is ctx's cause, or nil. A connection with the same deadline may notice
// it a moment sooner than ctx does.
func ended(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		<-ctx.Done()
	}
	return context.Cause(ctx)
}
