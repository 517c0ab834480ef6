// Package tokenctx stores tokens in a context. Package token reads them, and
// package lock adds those of its leases. No other package can mark a token as
// leased: package httpguard signs leased tokens, and only those.
//
// Package token imports this one, so the type of a token is a parameter.
package tokenctx

import (
	"context"
	"fmt"
	"sync/atomic"
)

// Entry is one token of a context. The entries of a context are a list, newest first. T
// is token.Token.
type Entry[T comparable] struct {
	Token    T
	Resource string // the token's resource
	// Released is true after the lease behind the token was released. It is nil if the
	// token came from elsewhere: a header, a queue, a test.
	Released *atomic.Bool
	Lease    any // the lease of package lock, or nil if Released is nil
	// Offer is set in the entry that hides a simulation's lease from its code. Token, Released
	// and Lease are then zero.
	Offer *Offer[T]
	Next  *Entry[T]
}

// Ended reports whether the lease behind the token was released.
func (e *Entry[T]) Ended() bool { return e.Released != nil && e.Released.Load() }

type key struct{}

// carrier is a context with one more token. It costs one allocation; context.WithValue
// and its entry would cost two.
type carrier[T comparable] struct {
	context.Context
	entry Entry[T]
}

// Value implements [context.Context].
func (c *carrier[T]) Value(k any) any {
	if k == (key{}) {
		return &c.entry
	}
	return c.Context.Value(k)
}

// String returns the text that fmt prints instead of the fields.
func (c *carrier[T]) String() string {
	return fmt.Sprintf("%v.WithToken(%v)", c.Context, c.entry.Token)
}

// New returns a context with e in front of the entries of ctx. It sets e.Next.
func New[T comparable](ctx context.Context, e Entry[T]) context.Context {
	e.Next = Entries[T](ctx)
	return &carrier[T]{Context: ctx, entry: e}
}

// Entries returns the newest entry of ctx, or nil if there is none.
func Entries[T comparable](ctx context.Context) *Entry[T] {
	e, _ := ctx.Value(key{}).(*Entry[T])
	return e
}

// Find returns the newest entry of resource, or nil if there is none.
func Find[T comparable](ctx context.Context, resource string) *Entry[T] {
	e := Entries[T](ctx)
	for e != nil && e.Resource != resource {
		e = e.Next
	}
	return e
}

// Leased reports whether tok is the newest token of resource in ctx, and the token of a
// lease that package lock took for ctx and that was not released. It returns false for a
// token that token.NewContext added: its number may have been made by any caller.
func Leased[T comparable](ctx context.Context, resource string, tok T) bool {
	e := Find[T](ctx, resource)
	return e != nil && e.Token == tok && e.Released != nil && !e.Released.Load()
}
