// Package marks carries the marks that a grant has raised from the issuer to the guard
// that a claim calls, so that a guard with the same marks need not raise them again. The
// values stay inside this process, and only issuers make them.
package marks

import "context"

// ID identifies a set of marks. Equal IDs identify the same marks; different IDs may
// do so too. The zero ID identifies none.
type ID struct {
	// DB is a pointer to the pool of connections that reaches the marks.
	DB any
	// Schema is the schema of the marks, by its full name.
	Schema string
}

type contextKey struct{}

type raised struct {
	tok any
	id  ID
}

// NewContext returns a context which records that the grant of tok raised the marks id to
// tok. If id is zero it returns ctx.
func NewContext(ctx context.Context, tok any, id ID) context.Context {
	if id == (ID{}) {
		return ctx
	}
	return context.WithValue(ctx, contextKey{}, raised{tok, id})
}

// Raised reports whether ctx records that the marks id were raised to tok. It returns
// false if id is zero.
func Raised(ctx context.Context, tok any, id ID) bool {
	return id != (ID{}) && ctx.Value(contextKey{}) == raised{tok, id}
}
