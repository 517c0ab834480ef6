package guard

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/fencepost/fencepost/internal/engine"
	"github.com/fencepost/fencepost/token"
)

// A guarded write has exactly one outcome. It was applied (nil), or it was refused
// ([ErrStale], [ErrCollision], or an error of package token for a token that is missing,
// released or incomplete), or the error is one of the following. After any other error,
// nothing was applied.
var (
	// ErrRetryable is returned when a concurrent transaction interfered (a serialization
	// failure, a deadlock, or a busy database), and when a COMMIT was lost and the server
	// has rolled the transaction back. Nothing was applied. Run the transaction again. If
	// the token has become stale in the meantime, the next run returns ErrStale.
	ErrRetryable = errors.New("guard: conflict or lost commit, nothing applied")
	// ErrUnknown is returned when the connection failed after the commit was sent, and
	// the guard could not find out what became of the transaction. The write may have been
	// applied, or not, or may still be on its way. While the token is the highest, the
	// mark admits it: the write can arrive after a check of the data, and overwrite a
	// later write. So end the Hold, acquire and claim again, and then read: a write that
	// arrives after the claim is refused. A write of Once can be repeated instead.
	ErrUnknown = errors.New("guard: outcome unknown")
	// ErrEvicted is returned when the server has ended the transaction, because it was
	// idle for too long, or because a newer holder had waited for it too long. Nothing
	// was applied.
	ErrEvicted = errors.New("guard: transaction ended by the server, nothing applied")
	// ErrClaimFirst is returned when a transaction took its fixed snapshot (REPEATABLE
	// READ, SERIALIZABLE) before its token had raised the mark, since the snapshot could
	// lack the older holder's last write. Nothing was applied. Claim first, in a
	// transaction of its own. For a row that carries its own mark, ErrClaimFirst is
	// returned when the row has no mark yet.
	ErrClaimFirst = errors.New("guard: claim before the snapshot, nothing applied")
	// ErrRowNotFound is returned when no mark refuses the token, but the row does not
	// exist, or does not match the statement's other conditions. Nothing was applied.
	// Guards of rows that carry their own mark return it. Without it, a statement that
	// matches no row would look like a refusal.
	ErrRowNotFound = errors.New("guard: no such row, nothing applied")
	// ErrUnfenced is returned when the database is an engine, or runs in a mode, that is
	// not known to fence: a cluster with several writing nodes, or a compatible engine
	// whose locks do not exclude. Nothing was applied, and a retry does not help. The
	// text names the engine, the reason, and the page of the documentation.
	ErrUnfenced = engine.ErrUnfenced
)

var (
	// ErrStale is returned when the mark does not admit a token. The error is a
	// [*StaleError]: nothing was applied, and the guard will never admit this token. A
	// [DismissedError] is ErrStale too, without these two promises.
	ErrStale = errors.New("guard: stale token")
	// ErrCollision is returned, together with ErrStale, when the mark has the same number
	// from another holder: an issuer has granted one number twice.
	ErrCollision = errors.New("guard: token collision")
)

// StaleError is the refusal of a token: nothing was applied. It is [ErrStale]. If the
// numbers are equal, it is also [ErrCollision].
type StaleError struct {
	Token token.Token
	// Mark is the mark that refused the token: that of a newer holder. Mark is zero if the
	// guard does not report it. If the mark was pruned, it is the floor: a number without a
	// holder. Error contains it, for logs. Do not send either to a caller that may make up
	// tokens, and could copy the number: httpguard.Error does not.
	Mark Mark
}

func (e *StaleError) Error() string {
	switch {
	case e.collides():
		return fmt.Sprintf("guard: token %s collides: %s has the same number", e.Token, cmp.Or(e.Mark.Holder, "another holder"))
	case e.Mark.Holder != "":
		return fmt.Sprintf("guard: stale token %s: overtaken by #%d of %s", e.Token, e.Mark.Number, e.Mark.Holder)
	case e.Mark.Number != 0:
		return fmt.Sprintf("guard: stale token %s: below the floor, #%d", e.Token, e.Mark.Number)
	}
	return fmt.Sprintf("guard: stale token %s: mark is newer", e.Token)
}

// Stale returns the refused token and the number of the mark, or 0 if the guard does not
// report it. Package lock calls Stale through an interface, since it does not import
// guard.
func (e *StaleError) Stale() (token.Token, int64) { return e.Token, e.Mark.Number }

// Is reports whether target is [ErrStale], or [ErrCollision] if the numbers are equal.
func (e *StaleError) Is(target error) bool {
	return target == ErrStale || target == ErrCollision && e.collides()
}

func (e *StaleError) collides() bool { return e.Token.Number == e.Mark.Number }

// IsRefusal reports whether err is the refusal of a token: the token is stale, collides,
// is missing, released or incomplete, or has no valid signature. It returns false for a
// [DismissedError] without a [*StaleError], since the interrupted work may have been
// applied.
func IsRefusal(err error) bool {
	var dismissed *DismissedError
	var stale *StaleError
	if errors.As(err, &dismissed) && !errors.As(err, &stale) {
		return false
	}
	for _, refusal := range []error{ErrStale, token.ErrMissing, token.ErrReleased, token.ErrInvalid, token.ErrBadSignature} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}

// DismissedError is the cause of a context that httpguard has ended because a newer token
// of the resource arrived. It is [ErrStale], but not a [*StaleError]: the work should
// stop, but may already have applied something. A client or driver that returns the
// context's cause returns this error; see [IsRefusal].
type DismissedError struct{ Token token.Token }

func (e *DismissedError) Error() string {
	return fmt.Sprintf("guard: a newer token than %s has arrived", e.Token)
}

// Is reports whether target is [ErrStale].
func (e *DismissedError) Is(target error) bool { return target == ErrStale }

// withStale joins a [*StaleError] to err if a newer token is the cause of a context's end,
// and err only reports that end. err is the error of a guard: unless it is [ErrUnknown],
// nothing was applied.
func withStale(cause, err error) error {
	var dismissed *DismissedError
	if !errors.As(cause, &dismissed) || errors.Is(err, ErrUnknown) {
		return err
	}
	if !errors.Is(err, context.Canceled) && !errors.Is(err, error(dismissed)) {
		return err
	}
	return errors.Join(err, &StaleError{Token: dismissed.Token})
}

// WithCause is for implementations of guards. It joins to err, the error of a write, the
// reason for which ctx has ended:
//
//   - [token.ErrLost], if the lease was lost;
//   - a [*StaleError], if a newer token has ended ctx ([DismissedError]) and err only
//     reports the end of ctx. A guard's error other than [ErrUnknown] promises that
//     nothing was applied.
//
// If err is nil, WithCause returns nil, since the mark has admitted the write.
func WithCause(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if err == nil || cause == nil {
		return err
	}
	err = withStale(cause, err)
	if !errors.Is(cause, token.ErrLost) || errors.Is(err, token.ErrLost) {
		return err
	}
	return errors.Join(err, cause)
}
