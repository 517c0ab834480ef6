package sqlguard

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/point"
	"github.com/fencepost/fencepost/token"
)

// fly sends p, again and again while it is only in the way of older writers,
// or until its tokens have raised their marks. Inside the caller's transaction
// there is no second try: the first one has aborted it.
func (c *call) fly(ctx context.Context, p packet) (*flight, error) {
	var waited time.Duration
	for hasClaimed := false; ; {
		if err := ended(ctx); err != nil {
			return nil, err
		}
		f, err := c.send(ctx, p)
		var b *blocked
		switch {
		case !errors.As(err, &b):
			return f, err
		case p.begin == nil, b.code == codeLockTimeout && c.bound() == 0:
			return nil, guard.WithLoss(ctx, b.verdict())
		case b.code == codeLockTimeout:
			waited += b.waited
			err = c.makeWay(ctx, b, waited)
		case !hasClaimed:
			hasClaimed = true
			err = c.claim(ctx)
		case c.DangerouslyObserve:
			c.giveUp(ctx, b)
			err = nil
		default:
			return nil, guard.WithLoss(ctx, b.verdict())
		}
		if err != nil {
			return nil, err
		}
	}
}

// makeWay ends the sessions of the older writers that keep b waiting, once
// they have had their time. The limit that struck may have been the session's
// own, and shorter. To end sessions would be no mere observing.
func (c *call) makeWay(ctx context.Context, b *blocked, waited time.Duration) error {
	var evicted error
	if !c.DangerouslyObserve && waited >= time.Duration(c.bound())*time.Millisecond {
		evicted = c.evict(ctx, b.tok)
	}
	if evicted != nil && sqlState(evicted) == "" {
		return guard.WithLoss(ctx, fmt.Errorf("sqlguard: evict for %s: %w", b.tok, evicted))
	}
	// A sleep that is short beside any bound, but lets nobody spin where the
	// session's lock_timeout is a millisecond.
	timer := time.NewTimer(5*time.Millisecond + rand.N(5*time.Millisecond))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return guard.WithLoss(ctx, errors.Join(fmt.Errorf("sqlguard: admit %s: older writers are still in: %w", b.tok, ctx.Err()), evicted))
	}
}

// evict is a READ COMMITTED transaction of its own: the function must see what
// is committed while it runs. An error with an SQLSTATE means that the role may
// not, or that the function is not there.
func (c *call) evict(ctx context.Context, tok token.Token) error {
	b := &pgx.Batch{}
	b.BeginTx(raising)
	b.Queue(c.stmts.evict, tok.Resource, tok.Number)
	b.Queue(commitSQL)
	results := c.db.SendBatch(point.Within(ctx, c), b)
	err := results.Close()
	if tx := results.Tx(); tx != nil {
		rollback(ctx, tx)
	}
	return err
}
