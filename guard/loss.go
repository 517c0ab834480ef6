package guard

import (
	"context"
	"errors"

	"github.com/fencepost/fencepost/token"
)

// WithLoss is for guards: it joins the loss of ctx's lease ([token.ErrLost]) to
// the error of a write, which it may explain. A nil error stays nil, since the
// mark has decided that the write may stand.
func WithLoss(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if err == nil || !errors.Is(cause, token.ErrLost) || errors.Is(err, token.ErrLost) {
		return err
	}
	return errors.Join(err, cause)
}
