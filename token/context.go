package token

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/fencepost/fencepost/internal/tokenctx"
	"github.com/fencepost/fencepost/internal/tokenuse"
)

// entry is a token in a context.
type entry = tokenctx.Entry[Token]

// NewContext returns a context that carries tok in addition to the tokens of ctx. A token
// of the same resource is replaced. Use NewContext for a token from outside, such as from
// a request or a queue; a Locker of package lock adds its tokens itself. NewContext does
// not validate tok; [FromContext] does.
func NewContext(ctx context.Context, tok Token) context.Context {
	return tokenctx.New(ctx, entry{Token: tok, Resource: tok.Resource})
}

// FromContext returns the token of resource. It returns a [*MissingError] if ctx carries
// none, [ErrReleased] if the lease of the token was released (work that continues after
// its Hold must not write), and an [*InvalidError] if the token is incomplete.
// FromContext returns the token of a lost lease: the guard decides whether that token may
// still write.
func FromContext(ctx context.Context, resource string) (Token, error) {
	tokenuse.Note(ctx, resource)
	e := tokenctx.Find[Token](ctx, resource)
	switch {
	case e == nil || e.Offer != nil:
		return Token{}, &MissingError{Resource: resource, Have: resources(ctx)}
	case e.Ended():
		return Token{}, fmt.Errorf("%w: %s", ErrReleased, e.Token)
	}
	return e.Token, e.Token.Validate()
}

// All returns the tokens that ctx carries, one for each resource, sorted by the bytes of
// the resource. It leaves out tokens whose lease was released.
func All(ctx context.Context) []Token {
	toks := all(ctx)
	for _, tok := range toks {
		tokenuse.Note(ctx, tok.Resource)
	}
	return toks
}

func all(ctx context.Context) []Token {
	var toks []Token
	seen := map[string]bool{}
	for e := tokenctx.Entries[Token](ctx); e != nil; e = e.Next {
		if !seen[e.Resource] && !e.Ended() && e.Offer == nil {
			toks = append(toks, e.Token)
		}
		seen[e.Resource] = true
	}
	slices.SortFunc(toks, func(a, b Token) int { return strings.Compare(a.Resource, b.Resource) })
	return toks
}

func resources(ctx context.Context) []string {
	var names []string
	for _, tok := range all(ctx) {
		names = append(names, tok.Resource)
	}
	return names
}
