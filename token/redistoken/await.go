package redistoken

import (
	"context"
	"fmt"
)

type answer struct {
	value any
	err   error
}

// await returns call's answer, or ctx's cause if ctx ends first.
//
// go-redis looks at a context before it sends and between its tries, but not
// while it reads: there it knows the deadline alone, and that only with
// ContextTimeoutEnabled. A call that is left behind ends with the client's
// read timeout.
func await(ctx context.Context, call func() (any, error)) (any, error) {
	answers := make(chan answer, 1)
	go func() {
		value, err := call()
		answers <- answer{value, err}
	}()
	select {
	case a := <-answers:
		if cause := ended(ctx); a.err != nil && cause != nil {
			return nil, fmt.Errorf("%w (%w)", cause, a.err)
		}
		return a.value, a.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
