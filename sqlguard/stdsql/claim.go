package stdsql

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// claim raises the marks in a transaction of its own, again and again while
// older writers are in the way and can be ended.
func (g *Guard) claim(ctx context.Context, d dialect, toks []token.Token, judge opinion) error {
	var waited time.Duration
	for {
		sent := time.Now()
		err := g.raise(ctx, d, toks, judge)
		var b *blocked
		if !errors.As(err, &b) || !errors.Is(b.outcome, guard.ErrRetryable) || d.patience() == 0 {
			return err
		}
		waited += time.Since(sent)
		if err := g.makeWay(ctx, d, b, waited); err != nil {
			return err
		}
	}
}

func (g *Guard) raise(ctx context.Context, d dialect, toks []token.Token, judge opinion) error {
	t, err := g.enter(ctx, d, toks, claiming, judge)
	if err != nil {
		return err
	}
	defer t.close(ctx)
	return t.commit(ctx)
}

// makeWay ends the sessions of the older writers that keep b waiting, once
// they have had their time. The limit that struck may have been the session's
// own, and shorter.
func (g *Guard) makeWay(ctx context.Context, d dialect, b *blocked, waited time.Duration) error {
	if waited >= d.patience() {
		ask, answered := asking(ctx)
		err := d.evict(ask, g.DB, b.tok)
		answered()
		if err != nil {
			return fmt.Errorf("stdsql: evict for %s: %w", b.tok, err)
		}
	}
	// A sleep that is short beside any bound, but lets nobody spin where the
	// session's lock_timeout is a millisecond.
	timer := time.NewTimer(5*time.Millisecond + rand.N(5*time.Millisecond))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stdsql: admit %s: older writers are still in: %w", b.tok, ctx.Err())
	}
}
