package redispoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/internal/lockscript"
)

// Hook is for AddHook of a [redis.Client], a [redis.ClusterClient] or any other
// [redis.UniversalClient]. All clients of one program should have the same Hook: a write
// under a context that is not Do's is the program's if its Hook has observed a writer. A new
// Hook is ready to use. It is safe for concurrent use.
type Hook struct {
	// Lock is the key of a lock on the same server that is not redistoken's, such as redsync's.
	// Commands with this argument are the lock's, and have no steps. Empty means that there is
	// no such lock, or that it has a client without the hook.
	Lock string
}

var _ redis.Hook = (*Hook)(nil)

// DialHook implements [redis.Hook]. It returns next.
func (*Hook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements [redis.Hook]. What it returns may block.
func (h *Hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !simulated(ctx) {
			return next(ctx, cmd)
		}
		return h.send(ctx, []redis.Cmder{cmd}, func(ctx context.Context) error {
			cmd.SetErr(next(ctx, cmd)) // as the client does when its hooks have returned
			return cmd.Err()
		})
	}
}

// ProcessPipelineHook implements [redis.Hook]. What it returns may block.
func (h *Hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if !simulated(ctx) {
			return next(ctx, cmds)
		}
		return h.send(ctx, cmds, func(ctx context.Context) error { return next(ctx, cmds) })
	}
}

// simulated reports whether ctx is a writer's, or belongs to no simulation while one runs.
func simulated(ctx context.Context) bool { return failpoint.Listening(ctx) || failpoint.IsUnheard(ctx) }

// request is a command or a pipeline, without the commands that a connection or a lock needs.
type request []redis.Cmder

// Traced marks the request as a tracer's. A simulation treats every other key as a guard's.
func (*request) Traced() {}

// send calls next between the steps of cmds.
func (h *Hook) send(ctx context.Context, cmds []redis.Cmder, next func(context.Context) error) error {
	r := request(slices.DeleteFunc(slices.Clone(cmds), func(cmd redis.Cmder) bool {
		return overhead[cmd.Name()] || lockscript.Runs(cmd.Args()) || h.Lock != "" && slices.Contains(cmd.Args(), any(h.Lock))
	}))
	switch key := failpoint.Key(ctx); {
	case len(r) == 0:
		return next(ctx)
	case !failpoint.Listening(ctx):
		h.note(ctx, nil, r)
		return next(ctx)
	case key != nil: // a guard reports the steps, or this hook has done so
		if _, noted := key.(*request); !noted {
			h.note(ctx, key, r)
		}
		return next(ctx)
	}
	failpoint.At(ctx, failpoint.Begin, &r)
	h.note(ctx, &r, r)
	var err error
	canLose := slices.ContainsFunc(r, writes)
	lost := canLose && failpoint.DropsCommit(ctx, &r)
	if !lost {
		err = next(failpoint.WithKey(ctx, &r))
		lost = canLose && acknowledged(err) && failpoint.DropsReply(ctx, &r)
	}
	if lost {
		err = errLost
		for _, cmd := range cmds {
			cmd.SetErr(err)
		}
	}
	failpoint.At(ctx, r.outcome(err), &r)
	return err
}

// errLost is also what go-redis returns if the server closes the connection.
var errLost = fmt.Errorf("%w: %w", failpoint.ErrLost, io.EOF)

// note reports the commands of r, or the writes among them that no listener receives.
func (h *Hook) note(ctx context.Context, key any, r request) {
	for _, cmd := range r {
		// Not as go-redis encodes it to send it: by that a guard decides whether it is sent.
		text := strings.TrimSpace(fmt.Sprintln(cmd.Args()...))
		switch {
		case failpoint.Listening(ctx):
			failpoint.Note(ctx, failpoint.Sent{Driver: "go-redis", Source: h, Key: key, SQL: text})
		case writes(cmd):
			failpoint.NoteUnheard(failpoint.Unheard{Source: h, SQL: text})
		}
	}
}

// outcome returns the last step of r. err is that of the whole request: if go-redis gets no
// connection for a pipeline, it may not set the errors of its commands.
func (r request) outcome(err error) failpoint.Step {
	last := failpoint.Undone
	for _, cmd := range r {
		failed := cmd.Err()
		if failed == nil && !acknowledged(err) && !refused(err) {
			failed = err
		}
		switch step := outcome(cmd, failed); step {
		case failpoint.Applied:
			return step
		case failpoint.Unknown:
			last = step
		}
	}
	return last
}

// outcome returns the last step of a command with error err. Redis does not roll back what
// a script has written before it fails.
func outcome(cmd redis.Cmder, err error) failpoint.Step {
	script := scripts[cmd.Name()]
	switch {
	case !writes(cmd), refused(err) && !script, redis.HasErrorPrefix(err, "NOSCRIPT"):
		return failpoint.Undone
	case err != nil, script && declines(cmd), isNil(cmd), strings.Contains(cmd.Name(), "."):
		return failpoint.Unknown
	}
	return failpoint.Applied
}

// declines reports whether a script returned what most scripts return that write nothing.
func declines(cmd redis.Cmder) bool {
	switch cmd := cmd.(type) {
	case *redis.Cmd:
		return slices.Contains([]any{nil, int64(0), false, ""}, cmd.Val())
	case *redis.IntCmd:
		return cmd.Val() == 0
	case *redis.BoolCmd:
		return !cmd.Val()
	}
	return false
}

// isNil reports whether the reply of cmd is a nil that go-redis returns as false, without an
// error: that of SetNX or SetXX with an expiry.
func isNil(cmd redis.Cmder) bool {
	_, is := cmd.(*redis.BoolCmd)
	return is && cmd.Name() == "set" && declines(cmd)
}

// acknowledged reports whether err is that of a reply which is not an error reply.
func acknowledged(err error) bool { return err == nil || errors.Is(err, redis.Nil) }

// refused reports whether err is an error reply.
func refused(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && !errors.Is(err, redis.Nil)
}
