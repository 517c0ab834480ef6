package sqlguard

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// observe reads the answer of observe.sql: the mark that would have refused.
func (c *call) observe(ctx context.Context, br pgx.BatchResults, tok token.Token) error {
	var number *int64
	var holder *string
	if err := br.QueryRow().Scan(&number, &holder); err != nil || number == nil {
		return err
	}
	mark := guard.Mark{Number: *number, Holder: *holder}
	return c.Observer.Judge(ctx, &guard.StaleError{Token: tok, Mark: mark}, true)
}

// giveUp has an observing call go on without the token that older writers
// keep waiting: to end their sessions would be no mere observing.
func (c *call) giveUp(ctx context.Context, b *blocked) {
	// A clone: a claim shares its tokens with the call that it is for.
	c.toks = slices.DeleteFunc(slices.Clone(c.toks), func(tok token.Token) bool { return tok == b.tok })
	err := fmt.Errorf("sqlguard: observe-only, %s was not judged: older writers are still in: %w", b.tok, b.err)
	if c.Observer.Observed != nil {
		c.Observer.Observed(ctx, err)
		return
	}
	slog.WarnContext(ctx, err.Error())
}
