package token

import (
	"context"
	"fmt"
	"time"
)

// giveBack ends the lease once. The resource is free at once, or when it has
// been held for so long.
func (l *lease) giveBack(ctx context.Context, atLeast time.Duration) error {
	var tell func()
	l.once.Do(func() {
		held := l.held()
		l.isReleased.Store(true)
		l.cancel(ErrReleased)
		var over <-chan struct{}
		if l.wheel != nil {
			over = l.wheel.remove(l)
		}
		l.err = l.free(ctx, over, atLeast-held)
		tell = func() { l.observer.released(l, held, l.err) }
	})
	if tell != nil { // not inside Do: the hook may call Release
		tell()
	}
	return l.err
}

// free leaves what is to be held for a rest under its holder's name, which
// nobody has any more.
func (l *lease) free(ctx context.Context, over <-chan struct{}, rest time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.ttl)
	defer cancel()
	var err error
	if rest > 0 {
		settle(ctx, over)
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
func settle(ctx context.Context, over <-chan struct{}) {
	if over == nil {
		return
	}
	select {
	case <-over:
	case <-ctx.Done():
	}
}
