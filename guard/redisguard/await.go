package redisguard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencepost/fencepost/token"
)

// grace is how long a write may take once the lease behind it is over.
const grace = 30 * time.Second

type answer struct {
	value    any
	err      error
	panicked any
}

// await returns call's answer. Where ctx ends first it returns what leave makes
// of the cause; a lost lease is not the end, since the mark decides and says
// more: it leaves call 30 s. A call that was left behind ends by the client's own
// timeouts.
//
// go-redis looks at a context before it sends and between its tries, but not
// while it reads: there it knows the deadline alone, and that only with
// ContextTimeoutEnabled.
func await(ctx context.Context, call func(context.Context) (any, error), leave func(cause error) error) (any, error) {
	if ctx.Done() == nil {
		return call(ctx)
	}
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
	case <-ctx.Done():
	}
	bound := time.NewTimer(remaining(ctx))
	defer bound.Stop()
	select {
	case a := <-answers:
		return a.result()
	case <-bound.C:
	}
	select { // both may be there
	case a := <-answers:
		return a.result()
	default:
		return nil, leave(context.Cause(ctx))
	}
}

// result panics on the caller's goroutine with what panicked on the other: an
// argument's own MarshalBinary, say.
func (a answer) result() (any, error) {
	if a.panicked != nil {
		panic(a.panicked)
	}
	return a.value, a.err
}

// remaining is how long an answer may still take once ctx has ended.
func remaining(ctx context.Context) time.Duration {
	cause := context.Cause(ctx)
	if !errors.Is(cause, token.ErrLost) && !errors.Is(cause, token.ErrReleased) {
		return 0
	}
	if deadline, dated := ctx.Deadline(); dated {
		return min(grace, time.Until(deadline))
	}
	return grace
}

// ended returns an error where the caller has left. A lost lease is not that:
// whether its token may still write is for the mark to say.
func ended(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, token.ErrLost) {
		return fmt.Errorf("nothing was sent: %w", cause)
	}
	return nil
}
