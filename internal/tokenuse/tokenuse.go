// Package tokenuse records which tokens of a context were looked up, to find handlers
// that do not use their token during development. Until the process calls [Track], it
// costs a load and a branch.
package tokenuse

import (
	"context"
	"sync"
	"sync/atomic"
)

// Notes records the resources whose tokens were looked up. It is safe for concurrent
// use.
type Notes struct {
	names sync.Map
	outer *Notes
}

type notesKey struct{}

var tracking atomic.Bool

// Track returns a context in which [Note] records.
func Track(ctx context.Context) (context.Context, *Notes) {
	tracking.Store(true)
	n := &Notes{}
	n.outer, _ = ctx.Value(notesKey{}).(*Notes)
	return context.WithValue(ctx, notesKey{}, n), n
}

// Note records that resource's token was looked up, if ctx is tracked.
func Note(ctx context.Context, resource string) {
	if !tracking.Load() {
		return
	}
	n, _ := ctx.Value(notesKey{}).(*Notes)
	for ; n != nil; n = n.outer {
		n.names.Store(resource, true)
	}
}

// Untracked returns a context in which nothing is recorded.
func Untracked(ctx context.Context) context.Context {
	if !tracking.Load() {
		return ctx
	}
	return context.WithValue(ctx, notesKey{}, (*Notes)(nil))
}

// Names returns the resources whose tokens were looked up, in no order.
func (n *Notes) Names() (names []string) {
	n.names.Range(func(name, _ any) bool {
		names = append(names, name.(string))
		return true
	})
	return names
}

// Has reports whether resource's token was looked up.
func (n *Notes) Has(resource string) bool {
	_, has := n.names.Load(resource)
	return has
}
