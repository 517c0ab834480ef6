package point

import (
	"context"
	"sync/atomic"
)

type observeKey struct{}

// observed is set for ever by the first Observe of a process.
var observed atomic.Bool

// Observe returns a context under which every guard of this module judges and
// refuses nothing, in silence: the unguarded twin of the same code. It is for
// simulations alone, which take a testing.TB before they call it.
func Observe(ctx context.Context) context.Context {
	observed.Store(true)
	return context.WithValue(ctx, observeKey{}, true)
}

// Observing reports whether ctx comes from [Observe].
func Observing(ctx context.Context) bool {
	return observed.Load() && ctx.Value(observeKey{}) != nil
}
