package stdsql

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/fencepost/fencepost/token"
)

// blocked is an admission that succeeds once something else has been done: the
// token was claimed, or older writers are gone.
type blocked struct {
	tok      token.Token
	outcome  error // what it comes to where nothing else can be done
	err      error
	harmless bool // the transaction can go on
}

func (b *blocked) Error() string {
	return fmt.Sprintf("%v: stdsql: admit %s: %v", b.outcome, b.tok, b.err)
}

func (b *blocked) Unwrap() []error { return []error{b.outcome, b.err} }

// unjudged tells of a token that observe-only mode lets through without knowing
// what to think of it.
func (g *Guard) unjudged(ctx context.Context, b *blocked) {
	err := fmt.Errorf("stdsql: observe-only, %s was not judged: %w", b.tok, b.err)
	if g.Observer.Observed != nil {
		g.Observer.Observed(ctx, err)
		return
	}
	slog.WarnContext(ctx, err.Error())
}
