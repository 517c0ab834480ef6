package otelfence

import (
	"context"
	"errors"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// Reasons for giving up.
const (
	held      = "held"
	waitEnded = "wait_ended"
	cancelled = "cancelled"
	failed    = "error"
)

// reason says why nothing was acquired. Who gave up because it was held all the
// time gave up because its wait, or its context, had ended.
func reason(ctx context.Context, err error) string {
	switch {
	case errors.Is(err, token.ErrWaitEnded):
		return waitEnded
	case ctx.Err() != nil:
		return cancelled
	case errors.Is(err, token.ErrHeld):
		return held
	}
	return failed
}

// refusals are the reasons of a guard, the more exact ones first: a collision is
// stale too.
var refusals = []struct {
	name string
	err  error
}{
	{"collision", guard.ErrCollision},
	{"stale", guard.ErrStale},
	{"released", token.ErrReleased},
	{"missing", token.ErrMissing},
	{"seal", token.ErrSeal},
	{"invalid", token.ErrInvalid},
}
