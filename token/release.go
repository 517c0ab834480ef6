package token

import (
	"context"
	"fmt"
	"time"
)

// giveBack ends the lease once. The resource is free at once, or when it has
// been held for so long.
func (l *lease) giveBack(ctx context.Context, atLeast time.Duration) error {
	l.once.Do(func() {
		held := l.held()
		l.isReleased.Store(true)
		l.cancel(ErrReleased)
		if l.wheel != nil {
			l.wheel.remove(l)
		}
		l.err = l.free(ctx, atLeast-held)
		l.observer.released(l, held, l.err)
	})
	return l.err
}

// free leaves what is to be held for a rest under its holder's name, which
// nobody has any more.
func (l *lease) free(ctx context.Context, rest time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.ttl)
	defer cancel()
	var err error
	if rest > 0 {
		l.settle(ctx)
		_, err = l.issuer.Renew(ctx, l.tok, max(rest, time.Millisecond))
	} else {
		err = l.issuer.Release(ctx, l.tok)
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrUnreleased, l.tok, err)
	}
	return nil
}

// settle waits for a renewal that is under way: arriving later, it would cut
// the rest down to a ttl.
func (l *lease) settle(ctx context.Context) {
	if b := l.renewal.Load(); b != nil {
		select {
		case <-b.done:
		case <-ctx.Done():
		}
	}
}
