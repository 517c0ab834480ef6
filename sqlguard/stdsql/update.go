package stdsql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// Update admits the token that ctx carries for resource, runs fn in the same transaction,
// and commits. The admission precedes every read of fn: fn sees the last write of every
// older token, and no newer token is admitted before the transaction ends. A nil error
// means that the transaction was committed. If the token has not raised its mark yet, it
// does so first in a transaction of its own, except on SQLite.
//
// If the token is refused, fn does not run. The error is [guard.ErrStale],
// [guard.ErrCollision], or the token package's error for a missing, released or
// incomplete token. An error or a panic of fn rolls back. Update returns fn's error
// unchanged, or joined to the outcome that it means ([guard.ErrRetryable],
// [guard.ErrEvicted]); a panic propagates.
//
// fn must use only tx, and must not end it or use it after it returns. If a statement
// fails that may have ended the transaction, fn must return: the next statement on the
// connection would commit by itself, unguarded.
//
//   - SQLite rolls back the whole transaction if it interrupts a write because a context
//     has ended, and on disk errors.
//   - MySQL rolls back after a deadlock. It commits before and after CREATE, ALTER, DROP,
//     TRUNCATE, LOCK TABLES and similar statements, so fn must not use them (MySQL
//     manual, "Statements That Cause an Implicit Commit").
//   - PostgreSQL fails all statements after an error. A COMMIT or ROLLBACK that fn sends as
//     a statement is detected only if the transaction is older than 100 ms.
//
// On MySQL and SQLite Update always detects afterwards that a statement has ended the
// transaction and returns [guard.ErrUnknown]. It returns the same error if fn has ended
// the transaction by its methods.
//
// On PostgreSQL, if the connection fails after COMMIT was sent, Update settles the
// transaction: on another connection of DB it asks the server what became of it, and ends
// its session if it is still in progress. Update then returns nil, or
// [guard.ErrRetryable] or [guard.ErrEvicted] (nothing was applied). It returns
// [guard.ErrUnknown] if the server had a crash or another server was promoted in the
// meantime, if no server answers or DB has no free connection within 30 s, on Aurora, and
// in report-only mode. If ctx has ended, Update asks once. On MySQL such a COMMIT is
// unknown.
//
// If ctx has ended when fn returns, or fn fails, nothing is committed, and the ROLLBACK
// takes 5 s at most if the server does not reply. A COMMIT that was sent is not cut off. On
// MySQL only readTimeout in the driver's DSN bounds it. The loss of the lease ends fn's
// context, but only the mark decides whether the write is applied. If Update returns an
// error after the loss, the error is joined to [token.ErrLost]. On SQLite, a writer that
// waits for the lock may not return before the busy_timeout ends, even if ctx ends.
func (g *Guard) Update(ctx context.Context, resource string, fn func(tx *sql.Tx) error) error {
	return g.UpdateAll(ctx, []string{resource}, fn)
}

// UpdateAll is [Guard.Update] for several resources. All are admitted before fn runs, or
// none, in bytewise order, so that two callers never deadlock whatever order they give. A
// name given twice counts once. No names are an error. On PostgreSQL more than 1,000
// names are an error before anything is sent: each takes an entry in the server's lock
// table, which all sessions share, and two while it is claimed.
func (g *Guard) UpdateAll(ctx context.Context, resources []string, fn func(tx *sql.Tx) error) error {
	c, err := g.newCall(ctx, writing)
	if err != nil {
		return err
	}
	if c.toks, err = c.tokens(ctx, resources); err != nil {
		return err
	}
	return guard.WithCause(ctx, c.update(ctx, fn))
}

func (c *call) update(ctx context.Context, fn func(tx *sql.Tx) error) error {
	for claimed := false; ; {
		t, block, err := c.begin(ctx)
		switch {
		case err != nil:
			return err
		case block == nil:
			return t.run(ctx, fn)
		case !errors.Is(block.outcome, guard.ErrClaimFirst):
			return block.error()
		case !claimed:
			claimed = true
			first := *c
			first.purpose = claimingFirst
			if err := first.claim(ctx); err != nil {
				return claimError(err)
			}
		case c.DangerouslyReportOnly:
			c.reportUnchecked(ctx, block)
			c.toks = slices.DeleteFunc(c.toks, func(tok token.Token) bool { return tok == block.tok })
		default:
			return block.error()
		}
	}
}

// Admit claims tok: it raises the mark of tok's resource to tok in a transaction of its
// own. It implements [guard.Store]. When it returns nil, no older token can write any
// more, and every older write is visible. Use it as
// [github.com/fencepost/fencepost/lock.Locker.Claim]: then no write of the lease has to
// claim.
//
// On PostgreSQL the mark is durable, whatever the session's synchronous_commit. On MySQL
// and SQLite it is as durable as the database's writes: under SQLite's synchronous =
// NORMAL, or with innodb_flush_log_at_trx_commit other than 1, a power failure may undo
// both.
//
// Admit waits for older writers as described at [Guard.IdleTimeout]. Its errors are those
// of [Guard.Update]. After [guard.ErrUnknown] the mark may be raised, and Admit can be
// called again with the same tok.
func (g *Guard) Admit(ctx context.Context, tok token.Token) error {
	if err := tok.Validate(); err != nil {
		return g.Hooks.Outcome(ctx, err, g.DangerouslyReportOnly)
	}
	c, err := g.newCall(ctx, claiming, tok)
	if err != nil {
		return err
	}
	return guard.WithCause(ctx, c.claim(ctx))
}

// claim raises the marks in a transaction of its own. It retries while older writers hold
// the mark and their sessions can be ended. It ends them after the bound: the timeout that
// ended an attempt may have been the session's own lock_timeout, which is shorter.
func (c *call) claim(ctx context.Context) error {
	pg, _ := c.dialect.(*postgres)
	var waited time.Duration
	for {
		sent := time.Now()
		t, block, err := c.begin(ctx)
		switch {
		case err != nil:
			return err
		case block == nil:
			return t.run(ctx, nil)
		case !errors.Is(block.outcome, guard.ErrRetryable) || pg == nil || !pg.canEvict():
			return block.error()
		}
		if waited += time.Since(sent); waited >= pg.bound {
			if err := pg.evict(ctx, c.DB, block.tok); err != nil {
				return fmt.Errorf("stdsql: evict for %s: %w", block.tok, err)
			}
		}
		// The sleep is short compared with any timeout. Without it a session whose
		// lock_timeout is a millisecond would retry in a busy loop.
		select {
		case <-time.After(5*time.Millisecond + rand.N(5*time.Millisecond)):
		case <-ctx.Done():
			return fmt.Errorf("stdsql: %s: older writers have not finished: %w", action(block.tok), ctx.Err())
		}
	}
}

// notSent returns the error of a write whose context had ended before it was sent.
func notSent(err error) error { return fmt.Errorf("stdsql: nothing was sent: %w", err) }
