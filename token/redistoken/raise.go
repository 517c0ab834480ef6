package redistoken

import (
	"context"
	"fmt"

	"github.com/fencepost/fencepost/token"
)

var _ token.Raiser = (*Issuer)(nil)

// Raise implements [token.Raiser]. It raises the numbers of the resource's
// bucket: those of one resource in 256.
func (i *Issuer) Raise(ctx context.Context, resource string, number int64) error {
	k, err := i.keys(resource)
	if err == nil {
		var reply any
		if reply, err = i.run(ctx, raiseScript, k, number, token.Poisoned); err == nil {
			err = raised(reply)
		}
	}
	if err != nil {
		return fmt.Errorf("redistoken: raise %s to %d: %w", resource, number, err)
	}
	return nil
}

func raised(reply any) error {
	switch reply {
	case int64(1):
		return nil
	case int64(0):
		return token.ErrLost
	case int64(-1):
		return token.ErrPoisoned
	}
	return unexpected(reply)
}
