package stdsql

import (
	"context"
	"fmt"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

var _ guard.Store = (*Guard)(nil)

// Admit claims: it raises the mark of tok's resource to tok in a transaction
// of its own, and so implements [guard.Store]. When it returns nil no older
// token writes any more, and every older write can be read. Give it to
// [token.Locker.Claim]. The mark is as durable as the database's writes are:
// under synchronous=NORMAL a loss of power may take both back.
//
// Errors are those of [Guard.Update]. Where it is [guard.ErrUnknown] the mark
// may be raised; to admit tok again does no harm.
func (g *Guard) Admit(ctx context.Context, tok token.Token) error {
	if err := tok.Check(); err != nil {
		return g.Observer.Judge(ctx, err, g.DangerouslyObserve)
	}
	return guard.WithLoss(ctx, g.run(ctx, []token.Token{tok}, nil))
}

func (g *Guard) admit(ctx context.Context, tx Tx, toks []token.Token) error {
	for _, tok := range toks {
		refusal := sqlite.judge(ctx, tx, tok)
		if err := g.Observer.Judge(ctx, refusal, g.DangerouslyObserve); err != nil {
			return err
		}
	}
	return nil
}

// judge raises the mark to tok, or returns the refusal.
func (d *dialect) judge(ctx context.Context, tx Tx, tok token.Token) error {
	result, err := tx.ExecContext(ctx, d.admit, tok.Resource, tok.Number, tok.Holder)
	if d.missing(err) {
		return fmt.Errorf("stdsql: the database lacks what package migrations creates: %w", err)
	}
	if err != nil {
		return fmt.Errorf("stdsql: admit %s: %w", tok, err)
	}
	rows, err := result.RowsAffected()
	if err != nil {
		return fmt.Errorf("stdsql: admit %s: %w", tok, err)
	}
	if rows == 1 {
		return nil
	}
	stale := &guard.StaleError{Token: tok}
	if err := tx.QueryRowContext(ctx, d.mark, tok.Resource).Scan(&stale.Mark.Number, &stale.Mark.Holder); err != nil {
		return fmt.Errorf("stdsql: mark of %s: %w", tok.Resource, err)
	}
	return stale
}
