package guard

import (
	"context"
	"errors"
	"fmt"

	"github.com/fencepost/fencepost/token"
)

// DismissedError is the cause of a context that was ended because a newer token
// of the resource has come, as httpguard does. It is [ErrStale], and no
// [*StaleError]: it says why the work should end, and nothing of what the work
// has applied. A client or driver that hands on the cause of a context hands on
// this; see [Refusal].
type DismissedError struct{ Token token.Token }

func (e *DismissedError) Error() string {
	return fmt.Sprintf("guard: a newer token than %s has come", e.Token)
}

// Is reports whether target is [ErrStale].
func (e *DismissedError) Is(target error) bool { return target == ErrStale }

// vouched is for a guard's err, which says nothing but that ctx has ended: the
// guard knows that nothing was applied.
func vouched(ctx context.Context, err error) error {
	var dismissed *DismissedError
	if !errors.As(context.Cause(ctx), &dismissed) || errors.Is(err, ErrUnknown) {
		return err
	}
	if !errors.Is(err, context.Canceled) && !errors.Is(err, error(dismissed)) {
		return err
	}
	return errors.Join(err, &StaleError{Token: dismissed.Token})
}
