package point

import "context"

type withinKey struct{}

// Within returns a context for the driver below, which says that the steps of
// key are told already: a tracer of that driver leaves them out, and knows the
// transaction that begins under it by that key. It is ctx itself where nobody
// listens.
func Within(ctx context.Context, key any) context.Context {
	if !Listening(ctx) {
		return ctx
	}
	return context.WithValue(ctx, withinKey{}, key)
}

// Custom is where the tracer of a PostgreSQL connection keeps the key of the
// transaction that is open on it, in the connection's CustomData.
const Custom = "fencepost.point"

// Key returns the key of [Within], or nil.
func Key(ctx context.Context) any {
	if !begun.Load() {
		return nil
	}
	return ctx.Value(withinKey{})
}
