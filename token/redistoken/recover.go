package redistoken

import (
	"context"
	"fmt"

	"github.com/fencepost/fencepost/token"
)

// Recover implements [token.Recoverer]. It raises the numbers of the resource's whole
// bucket: of one resource in 256. It returns [token.ErrLost] if the bucket's counter is
// number or greater, and [token.ErrTooFarAhead] if number is more than [token.MaxAhead]
// above the server's clock.
func (i *Issuer) Recover(ctx context.Context, resource string, number int64) error {
	k, err := i.keys(resource)
	if err == nil {
		var reply any
		if reply, err = i.run(ctx, recoverScript, k, number, token.MaxAhead); err == nil {
			err = parseRecover(reply)
		}
	}
	if err != nil {
		return fmt.Errorf("redistoken: recover %s to %d: %w", resource, number, err)
	}
	return nil
}

// parseRecover returns nil or an error for the reply of recover.lua.
func parseRecover(reply any) error {
	switch reply {
	case int64(1):
		return nil
	case int64(0):
		return token.ErrLost
	case int64(-1):
		return token.ErrTooFarAhead
	}
	if list, ok := reply.([]any); ok {
		if err := parseCounterError(list); err != nil {
			return err
		}
	}
	return unexpected(reply)
}
