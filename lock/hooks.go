package lock

import (
	"context"
	"log/slog"
	"time"

	"github.com/fencepost/fencepost/token"
)

// Hooks are called on events of a Locker's leases. A nil field is not called. Hooks run
// on the goroutine of the caller, or on the one that has renewed a batch of leases, and
// must return quickly. ctx is the context of the call or of the lease; it may have ended.
// Nested Holds acquire nothing and call no hooks.
type Hooks struct {
	// Acquired is called with each new token, before its claim. waited is how long the
	// caller waited for the grant.
	Acquired func(ctx context.Context, tok token.Token, waited time.Duration)
	// NotAcquired is called when no token was granted. err is the issuer's error or the
	// end of the wait. For HoldAny, resource is the list of all resources, separated by
	// commas, sorted.
	NotAcquired func(ctx context.Context, resource string, waited time.Duration, err error)
	// Renewed is called after each renewal. left is how long the lease lasts from
	// now if it is not renewed again.
	Renewed func(ctx context.Context, tok token.Token, left time.Duration)
	// RenewFailed is called when a renewal has failed and the lease still lasts for left.
	// If it is nil, [log/slog] warns at the second consecutive failure.
	RenewFailed func(ctx context.Context, tok token.Token, left time.Duration, err error)
	// Lost is called once for each lease that was lost, on a new goroutine. held is how
	// long it was held; err is [token.ErrLost]. A lease that ends with the context it was
	// acquired under is not lost.
	Lost func(ctx context.Context, tok token.Token, held time.Duration, err error)
	// Released is called once for each lease that was released, even if it was lost
	// before. err is the error of Release.
	Released func(ctx context.Context, tok token.Token, held time.Duration, err error)
	// Refused is called when a guard has refused the token of a lease as stale, in the
	// claim or in the error of the work.
	Refused func(ctx context.Context, tok token.Token, err error)
	// Collided is called instead of Refused if the guard has admitted the same number
	// from another holder: an issuer has granted one number twice.
	Collided func(ctx context.Context, tok token.Token, err error)
	// Recovered is called when a refusal has shown that the issuer forgot its numbers,
	// and the issuer was raised to number. The next acquisition is admitted. If Recovered
	// is nil, [log/slog] warns.
	Recovered func(ctx context.Context, tok token.Token, number int64)
}

func (h *Hooks) acquired(l *lease, waited time.Duration) {
	if h.Acquired != nil {
		h.Acquired(l.ctx, l.tok, waited)
	}
}

func (h *Hooks) renewed(l *lease, left time.Duration) {
	if h.Renewed != nil {
		h.Renewed(l.ctx, l.tok, left)
	}
}

// renewFailed warns at the second consecutive failure if there is no hook. One failure is
// normal. Several lose the lease, and without the warning nothing would have announced
// it.
func (h *Hooks) renewFailed(l *lease, left time.Duration, err error, failures int) {
	switch {
	case h.RenewFailed != nil:
		h.RenewFailed(l.ctx, l.tok, left, err)
	case failures == 2:
		slog.WarnContext(l.ctx, "lock: the lease cannot be renewed", "token", l.tok.String(), "left", left, "error", err)
	}
}

// lost calls the hook on a new goroutine, since the renewer must end other leases in
// time.
func (h *Hooks) lost(l *lease, err error) {
	if h.Lost != nil {
		go h.Lost(l.ctx, l.tok, l.held(), err)
	}
}

func (h *Hooks) released(l *lease, held time.Duration, err error) {
	if h.Released != nil {
		h.Released(l.ctx, l.tok, held, err)
	}
}

func (h *Hooks) refused(l *lease, err error, collided bool) {
	switch {
	case collided && h.Collided != nil:
		h.Collided(l.ctx, l.tok, err)
	case !collided && h.Refused != nil:
		h.Refused(l.ctx, l.tok, err)
	}
}

// recovered warns if there is no hook: an issuer that loses its memory needs attention.
func (h *Hooks) recovered(l *lease, number int64) {
	if h.Recovered != nil {
		h.Recovered(l.ctx, l.tok, number)
		return
	}
	slog.WarnContext(l.ctx, "lock: the issuer had forgotten its numbers, and was raised", "token", l.tok.String(), "to", number)
}
