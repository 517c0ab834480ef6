package redisguard

import (
	"context"
	"errors"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/point"
	"github.com/fencepost/fencepost/token"
)

// write is a guarded write on its way.
type write struct {
	*Guard
	verb      string
	resource  string
	tok       token.Token // zero where observing, and there is none
	observing bool
	mark      string // its key

	script  script
	keys    []string
	args    []any
	partial bool // the script may have written a part where it fails

	gate gate
}

// write finds the token of resource. Observe-only mode goes on without it.
func (g *Guard) write(ctx context.Context, resource string) (*write, error) {
	key, err := g.markKey(resource)
	if err != nil {
		return nil, err
	}
	w := &write{Guard: g, resource: resource, mark: key, observing: g.DangerouslyObserve || point.Observing(ctx)}
	if w.tok, err = token.FromContext(ctx, resource); err != nil {
		w.tok = token.Token{}
		err = guard.WithLoss(ctx, g.Observer.Judge(ctx, err, g.DangerouslyObserve))
	}
	return w, err
}

func (w *write) do(ctx context.Context) (any, error) {
	if slices.Contains(w.keys, w.mark) {
		return nil, failed(w.verb, w.resource, errors.New("the key is that of the mark"))
	}
	if err := ended(ctx); err != nil {
		return nil, failed(w.verb, w.resource, err)
	}
	point.At(ctx, point.Begin, w)
	w.gate.token = text(w.tok)
	value, err := await(ctx, w.send, w.leave)
	if err == nil {
		value, err = w.read(ctx, value)
	}
	point.At(ctx, last(err), w)
	return value, guard.WithLoss(ctx, err)
}

// leave is called when ctx ends before there is an answer.
func (w *write) leave(cause error) error {
	if w.gate.shut() {
		return unknown(w.verb, w.resource, cause)
	}
	return failed(w.verb, w.resource, cause)
}

// send has the script run, by its text where the server does not know its hash:
// then nothing has run before.
func (w *write) send(ctx context.Context) (any, error) {
	value, err := w.try(ctx, "evalsha", w.script.hash)
	if code(err) == "NOSCRIPT" && w.gate.reopen() {
		value, err = w.try(ctx, "eval", w.script.text)
	}
	switch {
	case err == nil:
		return value, nil
	case w.gate.doubt != nil:
		return nil, unknown(w.verb, w.resource, w.gate.doubt)
	case w.gate.isOpen():
		return nil, unknown(w.verb, w.resource, err)
	}
	return nil, failed(w.verb, w.resource, err)
}

// try sends one command, as a pipeline of its own: that tells the gate how each
// of the client's tries has ended.
func (w *write) try(ctx context.Context, name, payload string) (any, error) {
	args := make([]any, 0, 6+len(w.keys)+len(w.args))
	args = append(args, name, payload, 1+len(w.keys), w.mark)
	for _, key := range w.keys {
		args = append(args, key)
	}
	args = append(append(args, w.args...), w.mode(), &w.gate)
	cmd := redis.NewCmd(ctx, args...)
	cmd.SetFirstKeyPos(3)
	w.gate.cmd = cmd
	pipe := w.Client.Pipeline()
	_ = pipe.Process(ctx, cmd) // it queues, and has no error
	_, err := pipe.Exec(ctx)
	return cmd.Val(), err
}

func (w *write) mode() string {
	if w.observing {
		return "observe"
	}
	return "enforce"
}

// read makes the outcome of the script's answer.
func (w *write) read(ctx context.Context, value any) (any, error) {
	r := parse(value)
	switch r.word {
	case "refused":
		return nil, w.Observer.Judge(ctx, stale(w.tok, r.values[0]), false)
	case "corrupt":
		return nil, failed(w.verb, w.resource, unexpected(w.mark, value))
	case "applied", "failed":
		if r.values[0] != nil {
			_ = w.Observer.Judge(ctx, stale(w.tok, r.values[0]), true) // the write was made all the same
		}
	default:
		return nil, unknown(w.verb, w.resource, unexpected(w.mark, value))
	}
	if r.word == "applied" {
		return r.values[1], nil
	}
	said, _ := r.values[1].(string)
	if w.partial {
		return nil, unknown(w.verb, w.resource, scriptError(said))
	}
	return nil, failed(w.verb, w.resource, scriptError(said))
}
