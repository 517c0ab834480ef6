package token

import (
	"context"
	"log/slog"
	"time"
)

func (o *Observer) acquired(l *lease, waited time.Duration) {
	if o.Acquired != nil {
		o.Acquired(l.ctx, l.tok, waited)
	}
}

func (o *Observer) gaveUp(ctx context.Context, resource string, waited time.Duration, err error) {
	if o.GaveUp != nil {
		o.GaveUp(ctx, resource, waited, err)
	}
}

func (o *Observer) renewed(l *lease, left time.Duration) {
	if o.Renewed != nil {
		o.Renewed(l.ctx, l.tok, left)
	}
}

// endangered warns by itself where nobody else does: one failure in passing is
// no news, and the loss that the next ones lead to should not be the first.
func (o *Observer) endangered(l *lease, left time.Duration, err error, failures int) {
	switch {
	case o.Endangered != nil:
		o.Endangered(l.ctx, l.tok, left, err)
	case failures == 2:
		slog.WarnContext(l.ctx, "token: the lease cannot be renewed", "token", l.tok.String(), "left", left, "error", err)
	}
}

// lost has a goroutine of its own: whoever notices has other leases to end.
func (o *Observer) lost(l *lease, err error) {
	if o.Lost != nil {
		go o.Lost(l.ctx, l.tok, l.held(), err)
	}
}

func (o *Observer) released(l *lease, held time.Duration, err error) {
	if o.Released != nil {
		o.Released(l.ctx, l.tok, held, err)
	}
}

func (o *Observer) refused(l *lease, err error, collided bool) {
	switch {
	case collided && o.Collided != nil:
		o.Collided(l.ctx, l.tok, err)
	case !collided && o.Refused != nil:
		o.Refused(l.ctx, l.tok, err)
	}
}

// healed is never silent: an issuer that forgets should be looked after.
func (o *Observer) healed(l *lease, number int64) {
	if o.Healed != nil {
		o.Healed(l.ctx, l.tok, number)
		return
	}
	slog.WarnContext(l.ctx, "token: the issuer had forgotten its numbers, and was raised", "token", l.tok.String(), "to", number)
}
