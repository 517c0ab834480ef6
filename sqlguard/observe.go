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
	if *number == 0 {
		c.unjudged(ctx, tok)
		return nil
	}
	mark := guard.Mark{Number: *number, Holder: *holder}
	return c.Observer.Judge(ctx, &guard.StaleError{Token: tok, Mark: mark}, true)
}

// giveUp has an observing call go on without the token whose claim older
// writers kept waiting.
func (c *call) giveUp(ctx context.Context, b *blocked) {
	c.toks = slices.DeleteFunc(c.toks, func(tok token.Token) bool { return tok == b.tok })
	c.unjudged(ctx, b.tok)
}

func (c *call) unjudged(ctx context.Context, tok token.Token) {
	err := fmt.Errorf("sqlguard: observe-only, %s was not judged: older writers are still in", tok)
	if c.Observer.Observed != nil {
		c.Observer.Observed(ctx, err)
		return
	}
	slog.WarnContext(ctx, err.Error())
}
