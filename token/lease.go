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
	entered context.Context // of a re-entry
	leave   func()          // nil where it is none
}

// Token returns the token of the acquisition.
func (l *Lease) Token() Token { return l.tok }

// Context returns the context to work under. It carries the token and ends
// with the context that was given to Acquire; with cause [ErrLost] before the
// issuer can give the resource away, or after AtMost; with cause [ErrReleased]
// at Release. Of a re-entry it ends with the lease too, whatever became of the
// context that was given to Acquire: that one is returned where it lives just
// as long as the lease, and else one derived from it, which also ends, with
// cause ErrReleased, at the re-entry's own Release.
func (l *Lease) Context() context.Context {
	if l.leave != nil {
		return l.entered
	}
	return l.ctx
}

// Release ends the lease and gives the resource back. It reaches the issuer
// even if ctx is cancelled, and gives up after one ttl: then, or where the
// issuer does not answer well, the error is [ErrUnreleased], and [ErrLost] too
// if the resource had already passed on. Further calls return the same. The
// Release of a re-entry gives nothing back: the outermost lease decides.
func (l *Lease) Release(ctx context.Context) error {
	if l.leave != nil {
		l.leave()
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
	claimed    sync.Map // the *Lockers whose Claim succeeded
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
