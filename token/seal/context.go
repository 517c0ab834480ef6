package seal

import (
	"context"
	"fmt"
	"io"

	"github.com/fencepost/fencepost/token"
)

type contextKey struct{}

// carrier is a context with one seal more.
type carrier struct {
	context.Context
	sealed Sealed
	next   *carrier
}

// Value implements [context.Context].
func (c *carrier) Value(key any) any {
	if key == (contextKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// String is for those who print a context.
func (c *carrier) String() string { return fmt.Sprintf("%v.WithSeal(%s)", c.Context, c.sealed) }

// Format implements [fmt.Formatter]: every verb prints String.
func (c *carrier) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, c.String()) }

// NewContext returns a context that carries s.Token, as [token.NewContext] has
// it, and the seal of that token beside it: the one a request came with, to be
// handed on by whoever has no key. An unsealed s is only its token.
func NewContext(ctx context.Context, s Sealed) context.Context {
	if s.Key != "" {
		ctx = &carrier{Context: ctx, sealed: s, next: carried(ctx)}
	}
	return token.NewContext(ctx, s.Token)
}

// FromContext returns the seal that ctx carries of exactly this token, equal in
// resource, number and holder; the newest, where there are several. A seal says
// nothing of another token, so that of an older acquisition is never returned
// for the one that has taken its place in ctx. ok is false where there is none.
func FromContext(ctx context.Context, tok token.Token) (s Sealed, ok bool) {
	for c := carried(ctx); c != nil; c = c.next {
		if c.sealed.Token == tok {
			return c.sealed, true
		}
	}
	return Sealed{}, false
}

func carried(ctx context.Context) *carrier {
	c, _ := ctx.Value(contextKey{}).(*carrier)
	return c
}
