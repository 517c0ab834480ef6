package peer

import (
	"context"
	"errors"
	"time"
)

// TTL is how long all locks last when nobody renews them.
const TTL = 10 * time.Second

// Unlock gives a resource back.
type Unlock func(ctx context.Context) error

// Lock is one library, or one way to use it.
type Lock struct {
	// Wait waits until it has the resource.
	Wait func(ctx context.Context, resource string) (Unlock, error)
	// Try does not wait: where somebody else has the resource the error is [ErrHeld].
	Try func(ctx context.Context, resource string) (Unlock, error)
}

// ErrHeld says that somebody else has it.
var ErrHeld = errors.New("held by somebody else")
