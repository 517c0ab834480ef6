package redisguard

import (
	"context"
	"encoding"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/writectx"
	"github.com/fencepost/fencepost/token"
)

// write is one guarded write.
type write struct {
	*Guard
	verb       string
	resource   string
	tok        token.Token // zero if reportOnly and the context has none
	reportOnly bool
	mark       string // the key of the mark

	script  script
	keys    []string
	args    []any
	partial bool   // a script that fails may have written a part
	record  string // of Once: the key of the unit's record
	unit    string // of Once: its Key
	first   bool   // of Once: the unit had been recorded before

	deliver func(value any) error // of TxPipelined: gives the commands their replies

	gate gate
}

// write returns a write with the token of resource. In report-only mode the token may be
// missing.
func (g *Guard) write(ctx context.Context, resource string) (*write, error) {
	key, err := g.markKey(resource)
	if err != nil {
		return nil, err
	}
	w := &write{Guard: g, resource: resource, mark: key, reportOnly: g.DangerouslyReportOnly || isTwin(ctx)}
	if w.tok, err = token.FromContext(ctx, resource); err != nil {
		w.tok = token.Token{}
		err = guard.WithCause(ctx, g.Hooks.Outcome(ctx, err, g.DangerouslyReportOnly))
	}
	return w, err
}

func (w *write) do(ctx context.Context) (any, error) {
	if slices.Contains(w.keys, w.mark) {
		return nil, failed(w.verb, w.resource, errors.New("the key is the mark's own key"))
	}
	if w.record != "" {
		if slices.Contains(w.keys, w.record) {
			return nil, failed(w.verb, w.resource, errors.New("the key is the unit's own key"))
		}
		w.keys = append([]string{w.record}, w.keys...)
	}
	if err := writectx.CheckSend(ctx); err != nil {
		return nil, failed(w.verb, w.resource, notSent(err))
	}
	inner := begin(ctx, w)
	w.gate.token = text(w.tok)
	var value any
	err := w.drops(ctx)
	if err == nil {
		value, err = await(inner, w.send, w.leave)
	}
	if err == nil {
		value, err = w.read(ctx, value)
	}
	value, err = w.ends(ctx, value, err)
	return value, guard.WithCause(ctx, err)
}

// leave returns the error of a write whose ctx ends before its reply. It prevents a write
// that was not sent yet.
func (w *write) leave(cause error) error {
	if w.gate.shut() {
		return unknown(w.verb, w.resource, cause)
	}
	return failed(w.verb, w.resource, cause)
}

// send runs the script by its hash. If the server does not have it cached, nothing has
// run, and send uses the text.
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

// try sends one command, as a pipeline of its own: a pipeline reports the result of each
// of go-redis's attempts to the gate.
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
	_ = pipe.Process(ctx, cmd) // it only queues: no error
	_, err := pipe.Exec(ctx)
	return cmd.Val(), err
}

func (w *write) mode() string {
	if w.reportOnly {
		return "report"
	}
	return "enforce"
}

// read returns the outcome that the script's result describes.
func (w *write) read(ctx context.Context, value any) (any, error) {
	r := parse(value)
	switch r.word {
	case "refused":
		return nil, w.Hooks.Outcome(ctx, stale(w.tok, r.values[0]), false)
	case "corrupt":
		return nil, failed(w.verb, w.resource, unexpected(w.mark, value))
	case "corrupt unit":
		return nil, failed(w.verb, w.resource, unexpected(w.record, value))
	case "reused":
		return nil, failed(w.verb, w.resource, guard.ErrKeyReused)
	case "first":
		w.first = true
		r.word, _ = r.values[0].(string)
	case "applied", "failed":
		if r.values[0] != "" {
			_ = w.Hooks.Outcome(ctx, stale(w.tok, r.values[0]), true) // the write was made anyway
		}
	default:
		return nil, unknown(w.verb, w.resource, unexpected(w.mark, value))
	}
	if r.word == "applied" {
		if w.deliver == nil {
			return r.values[1], nil
		}
		if err := w.deliver(r.values[1]); err != nil {
			return nil, unknown(w.verb, w.resource, err)
		}
		return nil, nil
	}
	said, _ := r.values[1].(string)
	if w.partial {
		return nil, unknown(w.verb, w.resource, scriptError(said))
	}
	return nil, failed(w.verb, w.resource, scriptError(said))
}

type answer struct {
	value    any
	err      error
	panicked any
}

// await returns call's result. If the context of [writectx.New] ends first, it returns
// leave's error for the cause. call goes on without its caller and ends by the client's
// own timeouts.
//
// go-redis checks the context before it sends and between its attempts, but not while it
// reads; there it only uses the deadline, and only with ContextTimeoutEnabled. So call's
// context has no deadline, and ends when await returns.
func await(ctx context.Context, call func(context.Context) (any, error), leave func(cause error) error) (any, error) {
	if ctx.Done() == nil {
		return call(ctx)
	}
	bounded, end := writectx.New(ctx)
	defer end()
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	answers := make(chan answer, 1)
	go func() {
		var a answer
		defer func() {
			a.panicked = recover()
			answers <- a
		}()
		a.value, a.err = call(inner)
	}()
	select {
	case a := <-answers:
		return a.result()
	case <-bounded.Done():
	}
	select { // both may be ready
	case a := <-answers:
		return a.result()
	default:
		return nil, leave(context.Cause(bounded))
	}
}

// result panics on the caller's goroutine if call panicked on its own, as in an
// argument's MarshalBinary.
func (a answer) result() (any, error) {
	if a.panicked != nil {
		panic(a.panicked)
	}
	return a.value, a.err
}

// notSent returns the error of a write whose context ended before it was sent.
func notSent(err error) error { return fmt.Errorf("nothing was sent: %w", err) }

var (
	errLeft  = errors.New("redisguard: the caller has returned")
	errAgain = errors.New("redisguard: not sent again")
)

// gate is the last argument of a guarded write: the token. go-redis calls its
// MarshalBinary each time that it writes the command to a connection. If that fails, the
// command lacks an argument: go-redis closes the connection, and the server discards what
// it has received. So MarshalBinary decides whether the write is sent:
//
//   - It fails after the caller has returned. Otherwise go-redis would send the write
//     later, when it gets a connection or makes its next attempt.
//   - It fails if the last attempt got no reply. That attempt may have been applied. A
//     second one would apply the write twice, or be refused because of a newer token that
//     arrived in between, as if nothing had been applied.
//   - It succeeds if the last attempt got an error reply, because no script ran then: a
//     redirect of a Cluster, a replica that was the master, a server that is loading.
type gate struct {
	token string
	state atomic.Int32
	// cmd is the command. A pipeline sets its error after each attempt, and MarshalBinary
	// clears it before the next. So its error is the reply to the last attempt, or nil if
	// there was none.
	cmd *redis.Cmd
	// doubt is why the last attempt got no reply, set when another attempt is prevented.
	doubt error
}

const (
	unsent int32 = iota
	sent
	shut
)

var _ encoding.BinaryMarshaler = (*gate)(nil)

// MarshalBinary returns the token, or an error if the command must not be sent.
func (g *gate) MarshalBinary() ([]byte, error) {
	switch {
	case g.state.CompareAndSwap(unsent, sent):
	case g.state.Load() == shut:
		return nil, errLeft
	case !answered(g.cmd.Err()):
		g.doubt = errAgain
		if err := g.cmd.Err(); err != nil {
			g.doubt = fmt.Errorf("%w: %w", errAgain, err)
		}
		return nil, errAgain
	}
	g.cmd.SetErr(nil)
	return []byte(g.token), nil
}

// String returns the token, for hooks that log commands.
func (g *gate) String() string { return g.token }

// shut prevents further sends, and reports whether the write was sent.
func (g *gate) shut() (wasSent bool) { return g.state.Swap(shut) == sent }

// reopen allows another command after an error reply. It returns false if the caller has
// returned.
func (g *gate) reopen() bool { return g.state.CompareAndSwap(sent, unsent) }

// isOpen reports whether the outcome is unknown. It is called after go-redis has given up.
func (g *gate) isOpen() bool { return g.state.Load() != unsent && !answered(g.cmd.Err()) }

// answered reports whether err is an error reply. Our scripts return one only if they
// have not run, or failed before they write. Later errors are part of their result.
func answered(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer) && !errors.Is(err, redis.Nil)
}
