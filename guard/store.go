package guard

import (
	"context"

	"github.com/fencepost/fencepost/token"
)

// Store keeps marks. Package guardtest holds an implementation to what is
// said here.
type Store interface {
	// Admit compares tok with the mark of its resource and raises the mark,
	// in one atomic step, by the rule of [Mark.Admits]. It must be safe for
	// concurrent use. Where it returns nil the raised mark must be as durable
	// as the resource it guards; where it returns a [*StaleError] nothing may
	// have changed. An incomplete token must be refused with its own error.
	// Any other error leaves the mark where it was or raised, never lower.
	Admit(ctx context.Context, tok token.Token) error
}
