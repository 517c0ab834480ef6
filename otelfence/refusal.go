package otelfence

import (
	"context"
	"log/slog"

	"github.com/fencepost/fencepost/token"
)

func (l *leases) refusedToken(ctx context.Context, tok token.Token, err error) {
	l.refused.Add(alive(ctx), 1, l.of(tok.Resource).none...)
	event(ctx, refusedEvent, tok, err)
}

func (l *leases) collidedToken(ctx context.Context, tok token.Token, err error) {
	l.collided.Add(alive(ctx), 1, l.of(tok.Resource).none...)
	event(ctx, collidedEvent, tok, err)
}

// healedIssuer warns, as package token does where nobody observes.
func (l *leases) healedIssuer(ctx context.Context, tok token.Token, number int64) {
	l.healed.Add(alive(ctx), 1, l.of(tok.Resource).none...)
	event(ctx, healedEvent, tok, nil)
	slog.WarnContext(ctx, "token: the issuer had forgotten its numbers, and was raised",
		"token", tok.String(), "to", number)
}
