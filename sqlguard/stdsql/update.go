package stdsql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/point"
	"github.com/fencepost/fencepost/token"
)

// Update runs fn in a transaction in which the token that ctx carries for
// resource was admitted before fn reads anything: what fn reads is the last
// write of every older token, and no newer one gets in before the transaction
// ends. A nil error means that it was committed.
//
// A refusal ([guard.ErrStale], [guard.ErrCollision], or the token package's
// error for a missing, released or incomplete token) comes before fn, which
// then does not run. fn's error rolls back and is returned as it is, or with
// the outcome it means ([guard.ErrRetryable]); so does a panic, which goes on.
//
// fn must use tx alone, must not end it, nor use it after its return, and must
// return as soon as a statement's context ends or the disk fails: SQLite rolls
// the whole transaction back when it interrupts a write, and what the same
// connection is told next is committed by itself, outside the fence. Update
// finds that out only afterwards: then, and when fn has ended the transaction,
// the error is [guard.ErrUnknown].
//
// Where ctx has ended by the time fn returns, nothing is committed; from then
// on the COMMIT runs to its end. The loss of a lease ends fn's context but
// decides nothing here: the mark does. It is joined ([token.ErrLost]) to the
// error, if there is one. A writer that waits for the lock may not hear of
// the end of ctx before the busy_timeout ends.
func (g *Guard) Update(ctx context.Context, resource string, fn func(tx *sql.Tx) error) error {
	return g.UpdateAll(ctx, []string{resource}, fn)
}

// UpdateAll is [Guard.Update] for several resources, all admitted before fn
// runs, or none. A name given twice counts once; no names at all are an error.
func (g *Guard) UpdateAll(ctx context.Context, resources []string, fn func(tx *sql.Tx) error) error {
	toks, err := g.tokens(ctx, resources)
	if err != nil {
		return err
	}
	return guard.WithLoss(ctx, g.run(ctx, toks, fn))
}

// run admits the tokens, for fn or for nothing but their marks.
func (g *Guard) run(ctx context.Context, toks []token.Token, fn func(tx *sql.Tx) error) error {
	if err := ctx.Err(); err != nil && !errors.Is(context.Cause(ctx), token.ErrLost) {
		return fmt.Errorf("stdsql: nothing was sent: %w", err)
	}
	t := &transaction{dialect: &sqlite, end: point.Undone}
	point.At(ctx, point.Begin, t)
	defer func() { point.At(ctx, t.end, t) }()
	ask, answered := asking(ctx)
	defer answered()
	if err := g.begin(ask, t); err != nil {
		return sqlite.outcome(err)
	}
	defer t.close()
	if err := g.admit(point.Within(ask, t), t.Tx, toks); err != nil {
		return sqlite.outcome(err)
	}
	if fn == nil { // only the marks
		return t.commit(ctx)
	}
	return t.run(ctx, fn)
}

func (t *transaction) run(ctx context.Context, fn func(tx *sql.Tx) error) error {
	point.At(ctx, point.Admitted, t)
	if err := fn(t.Tx); err != nil {
		return t.abort(err, t.cut(err))
	}
	point.At(ctx, point.Commit, t)
	if err := t.commit(ctx); err != nil {
		return err
	}
	t.end = point.Applied
	return nil
}
