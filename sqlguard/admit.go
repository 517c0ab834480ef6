package sqlguard

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

var _ guard.Store = (*Guard)(nil)

var errNotDurable = errors.New("sqlguard: Admit inside a transaction would not be durable when it returns: use Join, or give the guard a pool")

// raising is the transaction in which a mark is raised: READ COMMITTED and
// able to write, whatever the session's defaults are.
var raising = pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}

const commitSQL = "commit"

// Admit claims: it raises the mark of tok's resource to tok in a transaction
// of its own, one packet, and so implements [guard.Store]. When it returns nil
// no older token writes any more, and every older write can be read. The mark
// is durable, whatever the session's synchronous_commit. Give it to
// [token.Locker.Claim], and no write of that lease has to wait for older ones,
// nor its first writers for one another.
//
// It waits for older writers as [Guard.Idle] says, and is an error where DB is
// a pgx.Tx. Where the error is [guard.ErrUnknown] the mark may be raised; to
// admit tok again does no harm.
func (g *Guard) Admit(ctx context.Context, tok token.Token) error {
	if err := tok.Check(); err != nil {
		return g.Observer.Judge(ctx, err, g.DangerouslyObserve)
	}
	c, err := g.call(ctx, g.DB)
	if err != nil {
		return err
	}
	if _, ok := transaction(c.db); ok {
		return errNotDurable
	}
	c.toks = []token.Token{tok}
	return c.by(c.stmts.admitDurable, c.bound()).commit(ctx)
}

// claim is Admit of all tokens, before the transaction that they are for.
// Observe-only mode judges the refused then, not twice.
func (c *call) claim(ctx context.Context) error {
	first := *c
	if first.by(c.stmts.admitDurable, c.bound()); c.DangerouslyObserve {
		first.admit.read = execute
	}
	return first.commit(ctx)
}

// commit sends the admissions as a transaction of their own.
func (c *call) commit(ctx context.Context) error {
	f, err := c.fly(ctx, packet{begin: &raising, commit: commitSQL})
	if err != nil {
		return err
	}
	return f.end(nil)
}
