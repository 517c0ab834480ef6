package lock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencepost/fencepost/internal/marks"
	"github.com/fencepost/fencepost/internal/schedule"
	"github.com/fencepost/fencepost/token"
)

// Lease is a resource that is held. It is renewed until it is released or lost, or until
// its context ends. It is safe for concurrent use.
type Lease struct {
	*lease
	entered context.Context // the context of a nested Hold; nil for the outermost
	leave   func()          // ends a nested Hold; nil for the outermost
}

// Token returns the token of the acquisition.
func (l *Lease) Token() token.Token { return l.tok }

// Context returns the context for the work. It carries the token. It ends
//
//   - with the context given to Acquire;
//   - with cause [token.ErrLost], before the issuer can grant the resource to
//     another holder, or after HoldAtMost;
//   - with cause [token.ErrReleased], at Release.
//
// For a nested Acquire, the context also ends when the outer lease does, even if the
// context given to Acquire was detached from it. At the nested lease's own Release it
// ends with cause ErrReleased. There is one exception: if the context given to Acquire
// has the same Done channel as the outer lease's, Context returns that context itself,
// which Release does not end.
func (l *Lease) Context() context.Context {
	if l.leave != nil {
		return l.entered
	}
	return l.ctx
}

// Release ends the lease and frees the resource. The request is sent even if ctx is
// cancelled; it gives up after one TTL. If the issuer did not confirm it, Release returns
// [ErrNotReleased]. That error is also [token.ErrLost] if the lease was no longer held.
// Before [Locker.HoldAtLeast] has passed, Release ends the lease, and the resource stays
// held for the rest of that time. Further calls return the same error. For a nested
// Acquire, Release frees nothing: the resource is held until the outermost lease is
// released.
func (l *Lease) Release(ctx context.Context) error {
	if l.leave != nil {
		l.leave()
		return nil
	}
	return l.release(ctx, l.holdAtLeast)
}

// lease is the state of one acquisition. All nested frames and the context refer to it.
type lease struct {
	issuer   token.Issuer
	hooks    *Hooks
	tok      token.Token
	settings // the Locker's
	granted  time.Time
	ctx      context.Context
	cancel   context.CancelCauseFunc
	renewer  *renewer
	entry    renewalEntry

	isReleased atomic.Bool
	claimed    sync.Map // the *Lockers whose Claim succeeded
	raised     marks.ID // the marks that the grant has raised
	recovered  bool     // the issuer was raised above the mark that refused the token
	once       sync.Once
	err        error
}

var errGrantLate = errors.New("the grant had expired when it arrived: the ttl is shorter than the round trip, or the process was paused")

// startRenewal schedules the renewals of a grant that lasts until the given time. If the
// grant has already expired, the lease is lost.
func (l *lease) startRenewal(until time.Time) {
	if schedule.TooLate(time.Until(until), l.safetyMargin) {
		l.lose(errGrantLate)
		return
	}
	l.renewer = renewers.enter(l.issuer)
	l.renewer.add(l, until)
}

// held returns how long the lease has been held.
func (l *lease) held() time.Duration { return time.Since(l.granted) }

// endCause returns the reason for which the renewer ended the lease.
func (l *lease) endCause(now time.Duration) error {
	if l.entry.Stop <= now {
		return fmt.Errorf("held for HoldAtMost %s", l.holdAtMost)
	}
	return l.entry.err
}

func (l *lease) lose(err error) {
	lost := &token.LostError{Token: l.tok, Err: err}
	l.cancel(lost)
	if errors.Is(context.Cause(l.ctx), lost) { // if not, the context had ended before, for another reason
		l.hooks.lost(l, lost)
	}
}

// release ends the lease once. The resource is freed when it has been held for atLeast.
func (l *lease) release(ctx context.Context, atLeast time.Duration) error {
	var hook func()
	l.once.Do(func() {
		held := l.held()
		l.isReleased.Store(true)
		l.cancel(token.ErrReleased)
		var over <-chan struct{}
		if l.renewer != nil {
			over = l.renewer.remove(l)
		}
		l.err = l.sendRelease(ctx, over, atLeast-held)
		hook = func() { l.hooks.released(l, held, l.err) }
	})
	if hook != nil { // called outside Do, since the hook may call Release
		hook()
	}
	return l.err
}

// sendRelease frees the resource. If rest is positive, it renews the lease for rest
// instead: the resource stays held, and no program uses the holder's id any more.
func (l *lease) sendRelease(ctx context.Context, over <-chan struct{}, rest time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.ttl)
	defer cancel()
	var err error
	if rest > 0 {
		// A renewal in flight that arrived after this one would extend the rest to a
		// whole TTL. So wait for it first.
		if over != nil {
			select {
			case <-over:
			case <-ctx.Done():
			}
		}
		_, err = l.issuer.Renew(ctx, l.tok, max(rest, time.Millisecond))
	} else {
		err = l.issuer.Release(ctx, l.tok)
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrNotReleased, l.tok, err)
	}
	return nil
}
