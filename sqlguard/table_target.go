package sqlguard

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

var (
	errNoGuard  = errors.New("sqlguard: Table has no Guard")
	errNoPrefix = errors.New("sqlguard: Table has no Prefix: the resource's name needs a kind before the key")
)

// target is one use of a Table: a row, and the token that is to write it. It is
// one piece of memory for what most of its uses need.
type target struct {
	call
	table *Table
	text  string      // of the key
	tok   token.Token // zero where observe-only mode goes on without one
	mark  *guard.Mark // that observe-only mode has met
	room  [8]any      // for arguments
}

func (t *Table) check() error {
	switch {
	case t.Guard == nil:
		return errNoGuard
	case t.Prefix == "":
		return errNoPrefix
	case t.Guard.Tx.AccessMode == pgx.ReadOnly:
		return errReadOnly
	}
	return nil
}

func (t *Table) target(ctx context.Context, key any) (*target, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	text, err := keyText(key)
	if err != nil {
		return nil, err
	}
	tok, err := token.FromContext(ctx, t.Prefix+text)
	if err != nil {
		g := t.Guard.simulated(ctx)
		if err = g.Observer.Judge(ctx, err, g.DangerouslyObserve); err != nil {
			return nil, guard.WithLoss(ctx, err)
		}
		tok = token.Token{}
	}
	return t.aim(ctx, text, tok)
}

// aim returns the target without what only an admission needs: see admitting.
func (t *Table) aim(ctx context.Context, text string, tok token.Token) (*target, error) {
	if err := check(t.Guard.DB); err != nil {
		return nil, err
	}
	g := t.Guard.simulated(ctx)
	return &target{call: call{Guard: g, db: g.DB}, table: t, text: text, tok: tok}, nil
}

// args returns the arguments of table_update.sql.
func (w *target) args(set Set) []any {
	var text any = w.text
	args := append(w.room[:0], text, text, w.tok.Number, w.tok.Holder)
	for _, c := range set {
		args = append(args, c[1])
	}
	return args
}
