package token

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Lease is the live handle around a token: a resource that is held now. It is
// renewed until it is released, lost, or its context ends. It is safe for
// concurrent use.
type Lease struct {
	*lease
	outer context.Context // of a re-entry
	inner bool
}

// Token returns the token of the acquisition.
func (l *Lease) Token() Token { return l.tok }

// Context returns the context to work under. It carries the token and ends
// with the context that was given to Acquire; with cause [ErrLost] before the
// issuer can give the resource away, or after AtMost; with cause [ErrReleased]
// at Release. Of a re-entry it is the context that was given to Acquire.
func (l *Lease) Context() context.Context {
	if l.inner {
		return l.outer
	}
	return l.ctx
}

// Release ends the lease and gives the resource back. It reaches the issuer
// even if ctx is cancelled, and gives up after one ttl: then, or where the
// issuer does not answer well, the error is [ErrUnreleased], and [ErrLost] too
// if the resource had already passed on. Further calls return the same. The
// Release of a re-entry does nothing: the outermost lease decides.
func (l *Lease) Release(ctx context.Context) error {
	if l.inner {
		return nil
	}
	l.once.Do(func() { l.err = l.release(ctx) })
	return l.err
}

// lease is what all frames of one acquisition share, and what a context holds.
type lease struct {
	issuer Issuer
	tok    Token
	ttl    time.Duration
	margin time.Duration
	ctx    context.Context
	cancel context.CancelCauseFunc

	isReleased atomic.Bool
	once       sync.Once
	err        error
}

func newLease(ctx context.Context, iss Issuer, grant Grant, t terms) *lease {
	l := &lease{issuer: iss, tok: grant.Token, ttl: t.ttl, margin: t.margin}
	ctx, l.cancel = context.WithCancelCause(ctx)
	l.ctx = withEntry(ctx, grant.Token, l)
	l.watch(grant.Until, t.atMost)
	return l
}

func (l *lease) released() bool { return l.isReleased.Load() }

func (l *lease) lose(err error) { l.cancel(&LostError{Token: l.tok, Err: err}) }

func (l *lease) release(ctx context.Context) error {
	l.isReleased.Store(true)
	l.cancel(ErrReleased)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.ttl)
	defer cancel()
	if err := l.issuer.Release(ctx, l.tok); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrUnreleased, l.tok, err)
	}
	return nil
}
