package guard

import (
	"context"
	"errors"

	"github.com/fencepost/fencepost/token"
)

// WithLoss is for guards: it joins what ctx tells of the token to the error of a
// write, which it may explain. That is the loss of the lease ([token.ErrLost]);
// and a [*StaleError], where a newer token has ended ctx ([DismissedError]) and
// err says no more than that: a guard's error that is not [ErrUnknown] promises
// that nothing was applied. A nil error stays nil, since the mark has decided
// that the write may stand.
func WithLoss(ctx context.Context, err error) error {
	if err != nil {
		err = vouched(ctx, err)
	}
	cause := context.Cause(ctx)
	if err == nil || !errors.Is(cause, token.ErrLost) || errors.Is(err, token.ErrLost) {
		return err
	}
	return errors.Join(err, cause)
}
