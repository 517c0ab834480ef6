package stdsql

import (
	"context"
	"errors"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

var _ guard.Store = (*Guard)(nil)

// Admit claims: it raises the mark of tok's resource to tok in a transaction
// of its own, and so implements [guard.Store]. When it returns nil no older
// token writes any more, and every older write can be read. Give it to
// [token.Locker.Claim], and no write of that lease has to claim.
//
// On PostgreSQL the mark is durable, whatever the session's synchronous_commit.
// Elsewhere it is as durable as the database's writes are: under synchronous =
// NORMAL (SQLite), or innodb_flush_log_at_trx_commit other than 1, a loss of
// power may take both back.
//
// It waits for older writers as [Guard.Idle] says. Errors are those of
// [Guard.Update]. Where it is [guard.ErrUnknown] the mark may be raised; to
// admit tok again does no harm.
func (g *Guard) Admit(ctx context.Context, tok token.Token) error {
	if err := tok.Check(); err != nil {
		return g.Observer.Judge(ctx, err, g.DangerouslyObserve)
	}
	g = g.simulated(ctx)
	d, err := g.dialect()
	if err != nil {
		return err
	}
	return guard.WithLoss(ctx, g.claim(ctx, d, []token.Token{tok}, g.judge))
}

// opinion is what a guard makes of what an admission came to.
type opinion func(ctx context.Context, err error, w way) error

// judge tells the observer. Observe-only mode refuses nothing, and lets those
// through that nobody can judge; before a write they are to claim first.
func (g *Guard) judge(ctx context.Context, err error, w way) error {
	var b *blocked
	if g.DangerouslyObserve && w != writing && errors.As(err, &b) && b.harmless {
		g.unjudged(ctx, b)
		return nil
	}
	return g.Observer.Judge(ctx, err, g.DangerouslyObserve)
}

// silent is for the claim before a write, where observe-only mode judges the
// write.
func (g *Guard) silent(ctx context.Context, err error, w way) error {
	var b *blocked
	if g.DangerouslyObserve && (guard.Refusal(err) || errors.As(err, &b) && b.harmless) {
		return nil
	}
	return g.judge(ctx, err, w)
}

func (g *Guard) admit(ctx context.Context, d dialect, tx Tx, toks []token.Token, w way, judge opinion) error {
	for _, tok := range toks {
		if err := judge(ctx, d.admit(ctx, tx, tok, w), w); err != nil {
			return err
		}
	}
	return nil
}
