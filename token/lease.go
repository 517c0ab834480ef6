package token

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencepost/fencepost/internal/tenure"
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
// if the resource had already passed on. Before [Locker.AtLeast] has passed it
// only ends the lease. Further calls return the same. The
// Release of a re-entry gives nothing back: the outermost lease decides.
func (l *Lease) Release(ctx context.Context) error {
	if l.leave != nil {
		l.leave()
		return nil
	}
	return l.giveBack(ctx, l.atLeast)
}

// lease is what all frames of one acquisition share, and what a context holds.
type lease struct {
	issuer   Issuer
	observer *Observer
	tok      Token
	terms    // the Locker's
	granted  time.Time
	ctx      context.Context
	cancel   context.CancelCauseFunc
	wheel    *wheel
	spoke    spoke

	isReleased atomic.Bool
	claimed    sync.Map // the *Lockers whose Claim succeeded
	healed     bool     // the issuer was raised past the mark that refused it
	once       sync.Once
	err        error
}

var errTooLate = errors.New("the grant arrived after its end: the ttl is shorter than the round trip, or the process was paused")

func (l *Locker) newLease(ctx context.Context, grant Grant, t terms) *lease {
	held := &lease{issuer: l.Issuer, observer: &l.Observer, tok: grant.Token, terms: t, granted: time.Now()}
	held.spoke.place = off
	ctx, held.cancel = context.WithCancelCause(ctx)
	held.ctx = withEntry(ctx, grant.Token, held)
	if grant.Claimed {
		held.claimed.Store(l, true)
	}
	return held
}

// begin is told how long the grant lasts.
func (l *lease) begin(until time.Time) {
	if tenure.TooLate(time.Until(until), l.margin) {
		l.lose(errTooLate)
		return
	}
	l.wheel = wheels.enter(l.issuer)
	l.wheel.add(l, until)
}

func (l *lease) released() bool { return l.isReleased.Load() }

// held is for how long, so far.
func (l *lease) held() time.Duration { return time.Since(l.granted) }

// ended is why the lease was taken off the wheel.
func (l *lease) ended(now time.Duration) error {
	if l.spoke.Stop <= now {
		return fmt.Errorf("held for AtMost %s", l.atMost)
	}
	return l.spoke.err
}

func (l *lease) lose(err error) {
	lost := &LostError{Token: l.tok, Err: err}
	l.cancel(lost)
	if errors.Is(context.Cause(l.ctx), lost) { // it had not ended before, for another reason
		l.observer.lost(l, lost)
	}
}
