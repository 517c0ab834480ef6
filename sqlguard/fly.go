package sqlguard

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/token"
)

// fly sends p, again and again while it is only in the way of older writers,
// or until its tokens have raised their marks. Inside the caller's transaction
// there is no second try: the first one has aborted it.
func (c *call) fly(ctx context.Context, p packet) (*flight, error) {
	start := time.Now()
	for claimed := false; ; {
		if err := ended(ctx); err != nil {
			return nil, err
		}
		f, err := c.send(ctx, p)
		var b *blocked
		switch {
		case !errors.As(err, &b):
			return f, err
		case p.begin == nil, b.code == codeClaimFirst && claimed, b.code == codeLockTimeout && c.bound() == 0:
			return nil, withLoss(ctx, b.verdict())
		case b.code == codeClaimFirst:
			claimed = true
			err = c.claim(ctx)
		case c.DangerouslyObserve && c.admit.sql == c.stmts.observe:
			c.giveUp(ctx, b)
			err = nil
		default:
			err = c.makeWay(ctx, b, time.Since(start))
		}
		if err != nil {
			return nil, err
		}
	}
}

// makeWay ends the sessions of the older writers that keep b waiting, once
// they have had their time. The limit that struck may have been the session's
// own, and shorter.
func (c *call) makeWay(ctx context.Context, b *blocked, waited time.Duration) error {
	var evicted error
	if waited >= time.Duration(c.bound())*time.Millisecond {
		evicted = c.evict(ctx, b.tok)
	}
	if evicted != nil && sqlState(evicted) == "" {
		return withLoss(ctx, fmt.Errorf("sqlguard: evict for %s: %w", b.tok, evicted))
	}
	// A sleep that is short beside any bound, but lets nobody spin where the
	// session's lock_timeout is a millisecond.
	timer := time.NewTimer(5*time.Millisecond + rand.N(5*time.Millisecond))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return withLoss(ctx, errors.Join(fmt.Errorf("sqlguard: admit %s: older writers are still in: %w", b.tok, ctx.Err()), evicted))
	}
}

// evict is a transaction of its own. An error with an SQLSTATE means that the
// role may not, or that the function is not there.
func (c *call) evict(ctx context.Context, tok token.Token) error {
	b := &pgx.Batch{}
	b.Queue(c.stmts.evict, tok.Resource, tok.Number)
	return c.db.SendBatch(ctx, b).Close()
}
