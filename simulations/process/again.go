package process

import (
	"errors"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// again reports whether a holder that did not come to its work takes the lock
// once more: it was too late, and that is all.
func again(err error) bool {
	return errors.Is(err, token.ErrLost) || guard.Refusal(err) || errors.Is(err, guard.ErrRetryable) || errors.Is(err, guard.ErrEvicted)
}
