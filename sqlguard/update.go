package sqlguard

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/point"
)

var errNoResources = errors.New("sqlguard: no resource was named")

// Update runs fn in a transaction in which the token that ctx carries for
// resource was admitted before fn reads anything: what fn reads is the last
// write of every older token, and no newer one gets in before the transaction
// ends. A nil error means that it was committed. BEGIN and the admission are
// one packet, so under a claimed token ([Guard.Admit]) it takes no more of them
// than the same unguarded closure; one that was not claimed is claimed first.
// After more than 100 ms it asks whether its session is still there before it
// sends COMMIT.
//
// A refusal ([guard.ErrStale], [guard.ErrCollision], or the token package's
// error for a missing, released or incomplete token) comes before fn, which
// then does not run. fn's error rolls back and is returned as it is, or with
// the outcome it means ([guard.ErrRetryable], [guard.ErrEvicted]); so does a
// panic, which goes on. fn must not end the transaction, nor use it after its
// return.
//
// The end of ctx rolls back until fn has returned. From then on the COMMIT runs
// to its end, for 30 s at most: cutting it off would only leave its outcome
// unknown. The loss of a lease ends fn's context but decides nothing here: the
// mark does. It is joined ([token.ErrLost]) to the error, if there is one.
//
// Where DB is a pgx.Tx, fn runs behind a savepoint of that transaction, and
// the admission ends with the savepoint: see [Guard.Join]. A refusal rolls back
// to it. Nothing is applied before the outer transaction commits, and what is
// retryable is the outer transaction.
func (g *Guard) Update(ctx context.Context, resource string, fn func(tx pgx.Tx) error) error {
	return g.update(ctx, []string{resource}, fn)
}

// UpdateAll is [Guard.Update] for several resources, all admitted in the one
// packet, in bytewise order whatever the order given, so that two callers never
// wait for each other in a circle. A name given twice counts once; no names at
// all are an error. Each takes a place in the server's table of locks: a
// thousand are few, ten thousand too many unless max_locks_per_transaction is
// raised (SQLSTATE 53200, nothing applied).
func (g *Guard) UpdateAll(ctx context.Context, resources []string, fn func(tx pgx.Tx) error) error {
	names, err := sorted(resources)
	if err != nil {
		return err
	}
	return g.update(ctx, names, fn)
}

func (g *Guard) update(ctx context.Context, resources []string, fn func(tx pgx.Tx) error) error {
	if g.Tx.AccessMode == pgx.ReadOnly {
		return errReadOnly
	}
	c, err := g.call(ctx, g.DB, resources...)
	if err != nil {
		return err
	}
	tx, err := c.begin(ctx)
	if err != nil {
		return err
	}
	return guard.WithLoss(ctx, c.run(ctx, tx, fn))
}

// run ends tx, whatever becomes of fn.
func (c *call) run(ctx context.Context, tx pgx.Tx, fn func(tx pgx.Tx) error) error {
	end := point.Undone
	defer func() {
		if end != point.Applied { // behind a COMMIT there is nothing left to give back
			rollback(ctx, tx)
		}
		c.at(ctx, end)
	}()
	begun := time.Now()
	c.at(ctx, point.Admitted)
	if err := fn(tx); err != nil {
		return nothingApplied(err)
	}
	c.at(ctx, point.Commit)
	err := c.finish(ctx, tx, begun)
	end = last(err)
	return err
}

func (c *call) begin(ctx context.Context) (pgx.Tx, error) {
	if outer, ok := transaction(c.db); ok {
		return c.by(c.stmts.admitBounded, c.bound()).nest(ctx, outer)
	}
	f, err := c.by(c.stmts.admitBounded, claimed).fly(ctx, packet{begin: &c.Tx})
	if err != nil {
		return nil, err
	}
	if err := f.results.Close(); err != nil {
		return nil, f.fail(c.wrap(err))
	}
	f.land()
	return f.tx, nil
}
