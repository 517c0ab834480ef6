// Package spent notes which tokens of a context somebody has asked for, so that
// a handler that forgot its token shows in development. It costs a load and a
// branch for as long as nobody in the process wants to know.
package spent

import (
	"context"
	"sync"
	"sync/atomic"
)

// Notes are the resources whose tokens were asked for. They are safe for
// concurrent use.
type Notes struct {
	names sync.Map
	outer *Notes
}

type notesKey struct{}

var tracking atomic.Bool

// Track returns a context in which [Note] is noted.
func Track(ctx context.Context) (context.Context, *Notes) {
	tracking.Store(true)
	n := &Notes{}
	n.outer, _ = ctx.Value(notesKey{}).(*Notes)
	return context.WithValue(ctx, notesKey{}, n), n
}

// Note notes that resource's token was asked for, wherever ctx is tracked.
func Note(ctx context.Context, resource string) {
	if !tracking.Load() {
		return
	}
	n, _ := ctx.Value(notesKey{}).(*Notes)
	for ; n != nil; n = n.outer {
		n.names.Store(resource, true)
	}
}

// Has reports whether resource's token was asked for.
func (n *Notes) Has(resource string) bool {
	_, has := n.names.Load(resource)
	return has
}
