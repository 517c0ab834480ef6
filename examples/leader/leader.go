package leader

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
)

// Candidate stands for election. All instances have the same role and issuer.
type Candidate struct {
	Locks *lock.Locker // without a WaitTimeout: candidates can wait
	Role  string
	// Lead works until its context ends, or returns sooner to step down.
	Lead func(ctx context.Context) error
	// Pause is how long a candidate waits after a failure. It doubles with each further
	// failure, up to a hundred times Pause. It must be above 0.
	Pause time.Duration
}

// Run stands, leads and stands again until ctx ends. It returns the cause of ctx.
func (c *Candidate) Run(ctx context.Context) error {
	for pause := c.Pause; ; {
		led := false
		err := c.Locks.Hold(ctx, c.Role, func(ctx context.Context) error {
			led = true
			return c.Lead(ctx)
		})
		next := After(err)
		slog.InfoContext(ctx, "leader: a term has ended", "role", c.Role, "led", led, "next", next, "error", err)
		switch next {
		case StandAgain:
			pause = 0
		case PauseFirst:
			pause = min(max(2*pause, c.Pause), 100*c.Pause)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// Next is the next step of a candidate after a term.
type Next string

// The next steps.
const (
	StandAgain Next = "stand again" // another instance leads or can lead
	PauseFirst Next = "pause first" // this instance, or the lock, has failed
)

// After returns the next step after a term that ended with err, the error of Hold. If the
// lease was lost, other errors of the term may be a result of that.
func After(err error) Next {
	for _, deposed := range []error{token.ErrLost, token.ErrHeld, guard.ErrStale} {
		if errors.Is(err, deposed) {
			return StandAgain
		}
	}
	return PauseFirst
}
