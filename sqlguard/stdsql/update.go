package stdsql

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/point"
	"github.com/fencepost/fencepost/token"
)

// Update runs fn in a transaction in which the token that ctx carries for
// resource was admitted before fn reads anything: what fn reads is the last
// write of every older token, and no newer one gets in before the transaction
// ends. A nil error means that it was committed. A token that has not raised
// its mark yet does so in a transaction of its own first, but on SQLite.
//
// A refusal ([guard.ErrStale], [guard.ErrCollision], or the token package's
// error for a missing, released or incomplete token) comes before fn, which
// then does not run. fn's error rolls back and is returned as it is, or with
// the outcome it means ([guard.ErrRetryable], [guard.ErrEvicted]); so does a
// panic, which goes on.
//
// fn must use tx alone, must not end it, nor use it after its return, and must
// return where a statement fails that may have ended the transaction: what the
// same connection is told next is committed by itself, outside the fence.
//
//   - SQLite rolls the whole transaction back where it interrupts a write,
//     because a context has ended, and where the disk fails.
//   - MySQL does so after a deadlock; and it commits before and after CREATE,
//     ALTER, DROP, TRUNCATE, LOCK TABLES and the like, which therefore have no
//     place in fn (MySQL manual, "Statements That Cause an Implicit Commit").
//   - PostgreSQL only fails what comes behind an error. A COMMIT that fn sends
//     as a statement is not found out there.
//
// Update finds that out afterwards: then, and when fn has ended the transaction
// by its methods, the error is [guard.ErrUnknown].
//
// Where ctx has ended by the time fn returns, nothing is committed; from then
// on the COMMIT runs to its end. The loss of a lease ends fn's context but
// decides nothing here: the mark does. It is joined ([token.ErrLost]) to the
// error, if there is one. On SQLite a writer that waits for the lock may not
// hear of the end of ctx before the busy_timeout ends.
func (g *Guard) Update(ctx context.Context, resource string, fn func(tx *sql.Tx) error) error {
	return g.UpdateAll(ctx, []string{resource}, fn)
}

// UpdateAll is [Guard.Update] for several resources, all admitted before fn
// runs, or none, in bytewise order whatever the order given, so that two callers
// never wait for each other in a circle. A name given twice counts once; no names
// at all are an error.
func (g *Guard) UpdateAll(ctx context.Context, resources []string, fn func(tx *sql.Tx) error) error {
	g = g.simulated(ctx)
	d, err := g.dialect()
	if err != nil {
		return err
	}
	toks, err := g.tokens(ctx, resources)
	if err != nil {
		return err
	}
	return guard.WithLoss(ctx, g.update(ctx, d, toks, fn))
}

func (g *Guard) update(ctx context.Context, d dialect, toks []token.Token, fn func(tx *sql.Tx) error) error {
	for claimed := false; ; {
		t, err := g.enter(ctx, d, toks, writing, g.judge)
		var b *blocked
		switch {
		case err == nil:
			return t.run(ctx, fn)
		case !errors.As(err, &b) || !errors.Is(b.outcome, guard.ErrClaimFirst):
			return err
		case !claimed:
			claimed = true
			if err := g.claim(ctx, d, toks, g.silent); err != nil {
				return err
			}
		case g.DangerouslyObserve:
			g.unjudged(ctx, b)
			toks = slices.DeleteFunc(toks, func(tok token.Token) bool { return tok == b.tok })
		default:
			return err
		}
	}
}

// run ends the transaction, whatever becomes of fn.
func (t *transaction) run(ctx context.Context, fn func(tx *sql.Tx) error) error {
	defer t.close(ctx)
	point.At(ctx, point.Admitted, t)
	if err := fn(t.Tx); err != nil {
		return t.abort(ctx, err, t.cut(err))
	}
	point.At(ctx, point.Commit, t)
	if err := t.commit(ctx); err != nil {
		return err
	}
	t.end = point.Applied
	return nil
}
