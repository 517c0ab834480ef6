package token

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/fencepost/fencepost/internal/spent"
)

type contextKey struct{}

// entry is one link of the tokens a context carries, newest first. lease is
// nil when the token came from elsewhere: a header, a queue, a test.
type entry struct {
	tok   Token
	lease *lease
	next  *entry
}

// carrier is a context with one token more: one allocation, where a context's
// value and what it points to would be two.
type carrier struct {
	context.Context
	entry entry
}

// Value implements [context.Context].
func (c *carrier) Value(key any) any {
	if key == (contextKey{}) {
		return &c.entry
	}
	return c.Context.Value(key)
}

// String is for those who print a context.
func (c *carrier) String() string { return fmt.Sprintf("%v.WithToken(%s)", c.Context, c.entry.tok) }

// NewContext returns a context that carries tok besides the tokens ctx has,
// in place of one of the same resource. It is for tokens that come from
// elsewhere, as from a request; a [Locker] does this by itself. An incomplete
// token is carried too, and refused where it is used.
func NewContext(ctx context.Context, tok Token) context.Context {
	return withEntry(ctx, tok, nil)
}

// FromContext returns the token of resource. It fails closed: the error is a
// [*MissingError] where ctx carries none, [ErrReleased] where the lease behind
// the token has been released (work that outlived its Hold must not write),
// and an [*InvalidError] where the token is incomplete. A lost lease's token
// is returned: whether it may still write is for the guard to say.
func FromContext(ctx context.Context, resource string) (Token, error) {
	spent.Note(ctx, resource)
	e := find(ctx, resource)
	switch {
	case e == nil:
		return Token{}, &MissingError{Resource: resource, Have: resources(ctx)}
	case e.lease != nil && e.lease.released():
		return Token{}, fmt.Errorf("%w: %s", ErrReleased, e.tok)
	}
	return e.tok, e.tok.Check()
}

// Leased reports whether ctx carries exactly tok, and as the token of a lease
// that a [Locker] took for ctx and that has not been released. Of what came from
// elsewhere, and was put there by [NewContext], it does not: nobody here knows
// who made that number.
func Leased(ctx context.Context, tok Token) bool {
	e := find(ctx, tok.Resource)
	return e != nil && e.tok == tok && e.lease != nil && !e.lease.released()
}

// All returns the tokens that ctx carries, one per resource, in the bytewise
// order of the resources, without those whose lease has been released.
func All(ctx context.Context) []Token {
	toks := all(ctx)
	for _, tok := range toks {
		spent.Note(ctx, tok.Resource)
	}
	return toks
}

func all(ctx context.Context) []Token {
	var toks []Token
	seen := map[string]bool{}
	for e := entries(ctx); e != nil; e = e.next {
		if !seen[e.tok.Resource] && (e.lease == nil || !e.lease.released()) {
			toks = append(toks, e.tok)
		}
		seen[e.tok.Resource] = true
	}
	slices.SortFunc(toks, func(a, b Token) int { return strings.Compare(a.Resource, b.Resource) })
	return toks
}

func withEntry(ctx context.Context, tok Token, l *lease) context.Context {
	return &carrier{Context: ctx, entry: entry{tok: tok, lease: l, next: entries(ctx)}}
}

func entries(ctx context.Context) *entry {
	e, _ := ctx.Value(contextKey{}).(*entry)
	return e
}

func find(ctx context.Context, resource string) *entry {
	e := entries(ctx)
	for e != nil && e.tok.Resource != resource {
		e = e.next
	}
	return e
}

func resources(ctx context.Context) []string {
	var names []string
	for _, tok := range all(ctx) {
		names = append(names, tok.Resource)
	}
	return names
}
